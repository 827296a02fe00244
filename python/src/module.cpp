// SPDX-License-Identifier: Apache-2.0
// The extension tessera._core: Tessera's values and functions under their own names.
#include "bindings.hpp"
#include "tessera/version.hpp"

NB_MODULE(_core, m) {
  using namespace tessera::python;
  m.attr("version") = tessera::k_version;
  bind_diagnostics(m);
  bind_documents(m);
  bind_describe(m);
  bind_check(m);
  bind_timeline(m);
  bind_plan(m);
  bind_cli(m);
}
