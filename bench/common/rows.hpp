// SPDX-License-Identifier: Apache-2.0
// Rows of a record: variants that are timed in turns, hot and after rests.
#pragma once

#include <tessera/report/json_text.hpp>
#include <vector>

#include "bench/common/program.hpp"
#include "src/bench/timer.hpp"
#include "tessera/measure/statistics.hpp"

namespace tessera::bench {

/// Microseconds of a variant; 0: not timed.
struct RowTimes {
  double low = 0, median = 0, high = 0, cool = 0;
};

/// Times what was captured, `running`, in turns, and gives each row its quantiles; releases the graphs. Ends
/// the program if CUDA fails. `rest`: as often as long as the work.
template <class Row>
void time_rows(Timer& timer, std::vector<Timed*> const& running, std::vector<Row>& rows, int rounds,
               int cool_rounds, double rest) {
  timer.hot_rounds(running, 3);
  for (auto* const one : running) one->hot.clear();
  timer.hot_rounds(running, rounds);
  timer.cool_rounds(running, cool_rounds, rest);
  check(timer.error(), "measuring");
  for (Row& row : rows) {
    if (row.timed.hot.empty()) continue;
    row.low = quantile(row.timed.hot, 0.1);
    row.median = median(row.timed.hot);
    row.high = quantile(row.timed.hot, 0.9);
    row.cool = median(row.timed.cool);
    timer.release(row.timed);
  }
}

template <class Row>
void write_rows(JsonWriter& json, std::vector<Row> const& rows) {
  for (Row const& row : rows) {
    json.begin_object().member("variant", row.name).member("detail", row.detail);
    json.member("us", with_decimals(row.median, 2)).member("us_p10", with_decimals(row.low, 2));
    json.member("us_p90", with_decimals(row.high, 2)).member("us_cool", with_decimals(row.cool, 2));
    json.member("relative_error", with_digits(row.error, 3)).end_object();
  }
}

}  // namespace tessera::bench
