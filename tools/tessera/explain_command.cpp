// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>

#include "commands.hpp"
#include "diagnostic/nearest.hpp"
#include "load_plan.hpp"
#include "tessera/plan/plan_json.hpp"
#include "tessera/report/json_text.hpp"
#include "tessera/report/report.hpp"
#include "tessera/shipped.hpp"

namespace tessera::cli {
namespace {

struct ExplainArguments {
  std::string what;
  std::optional<int> alternatives;
};

/// "E0103" of "E0103", "e0103", "0103" and "103"; empty: not a code.
std::string code_of(std::string const& text) {
  auto const digits = text.substr(!text.empty() && (text[0] == 'E' || text[0] == 'e'));
  bool const code =
      !digits.empty() && digits.size() <= 5 &&
      std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c); });
  return code ? fmt::format("E{:0>4}", digits) : "";
}

/// "# E0103: dependence reads ..." -> "dependence reads ..."
std::string title_of(ShippedFile const& page) {
  std::string line(page.text.substr(0, page.text.find('\n')));
  auto const colon = line.find(": ");
  return colon == std::string::npos ? line : line.substr(colon + 2);
}

int list_codes(Session const& session) {
  JsonWriter json;
  json.begin_object().member("schema", "tessera.codes/1").key("codes").begin_array();
  std::string text;
  for (auto const& page : shipped_diagnostics()) {
    text += fmt::format("{}  {}\n", page.name, title_of(page));
    json.begin_object().member("code", page.name).member("title", title_of(page)).end_object();
  }
  session.print(session.json ? json.end_array().end_object().text() + '\n' : text);
  return k_ok;
}

int explain_code(Session const& session, std::string const& code) {
  std::vector<std::string> codes;
  for (auto const& page : shipped_diagnostics()) {
    codes.emplace_back(page.name);
    if (page.name != code) continue;
    if (!session.json) {
      session.print(page.text);
      return k_ok;
    }
    JsonWriter json;
    json.begin_object()
        .member("schema", "tessera.code/1")
        .member("code", page.name)
        .member("title", title_of(page));
    session.print(json.member("text", page.text).end_object().text() + '\n');
    return k_ok;
  }
  return session.fail(complaint("E0907", fmt::format("there is no diagnostic {}", code),
                                did_you_mean(code, codes), {"tessera explain lists them all"}));
}

/// E0906: it is about a plan.
int no_alternatives(Session const& session, std::string const& of) {
  return session.fail(complaint("E0906", "--alternatives are a plan's, and there are none of " + of,
                                "leave --alternatives out"));
}

int run(Session const& session, ExplainArguments const& arguments) {
  constexpr int k_usual_alternatives = 8;
  bool const wants_them = arguments.alternatives.has_value();
  if (arguments.what.empty()) return wants_them ? no_alternatives(session, "codes") : list_codes(session);
  if (auto const code = code_of(arguments.what); !code.empty())
    return wants_them ? no_alternatives(session, code) : explain_code(session, code);
  auto const loaded = load_plan_or_timeline(session, arguments.what, {.quotes_times = true});
  if (!loaded) return session.fail(loaded.error());
  if (loaded->plan)
    session.print(session.json
                      ? print_plan(loaded->plan->plan)
                      : explain(loaded->plan->plan, arguments.alternatives.value_or(k_usual_alternatives)));
  else if (wants_them)
    return no_alternatives(session, arguments.what);
  else
    session.print(session.json ? print_timeline(*loaded->timeline) : summary(*loaded->timeline));
  return k_ok;
}

}  // namespace

void add_explain(CLI::App& app, Session const& session, Action& action) {
  auto* command =
      app.add_subcommand("explain", "What a diagnostic means, why a plan was chosen, what a timeline shows");
  auto arguments = std::make_shared<ExplainArguments>();
  command->add_option("what", arguments->what,
                      "A code (E0103), a plan's JSON or a timeline's JSON; nothing lists all codes");
  command
      ->add_option("--alternatives", arguments->alternatives,
                   "How many rejected candidates of a plan are shown")
      ->check(CLI::Range(0, 100000))
      ->option_text("N=8");
  command->footer(
      "Examples:\n"
      "  tessera explain E0103\n"
      "  tessera explain plan.json --alternatives 100\n"
      "  tessera explain");
  command->callback([arguments, &session, &action] {
    action = [arguments, &session] { return run(session, *arguments); };
  });
}

}  // namespace tessera::cli
