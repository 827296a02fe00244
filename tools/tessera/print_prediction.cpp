// SPDX-License-Identifier: Apache-2.0
#include "print_prediction.hpp"

#include "files.hpp"

namespace tessera::cli {

int print_prediction(Session const& session, StudyDocument const& document, std::string const& output) {
  std::vector<OutputFile> files;
  if (!output.empty()) files.push_back({output, study_json(document)});
  if (auto const written = write_files(session, files); !written) return session.fail(written.error());
  if (!fill_standard_output(files))
    session.print(session.json ? study_json(document) : study_page_text(document));
  return k_ok;
}

}  // namespace tessera::cli
