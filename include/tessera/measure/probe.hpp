// SPDX-License-Identifier: Apache-2.0
// What `tessera probe` found out about a machine: plain values, printed and read as the "probe" of a machine
// profile. The planner and the simulator read MachineProfile's fields, which are made from these.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tau.hpp"

namespace tessera {

/// One measured cost. A curve is several figures of one id that differ in one condition.
struct Figure {
  std::string id;      ///< level.mechanism or level.mechanism.variant: "pair.hop.store"
  std::string what;    ///< in plain words, for a report
  std::string unit;    ///< "ns", "cycle", "1/cycle", "1e9 byte/s", "1"
  std::string method;  ///< "dependent chain", "repeat difference", "kernel fusion", "ping-pong", "slope",
                       ///< "stamps", "count" or "query"
  double median = 0;
  double deviation = 0;  ///< Eq. 8 of Zhang et al. (IPDPS 2020) where the method is a difference
  double p05 = 0, p95 = 0;
  int samples = 0;
  std::map<std::string, double>
      at;                 ///< conditions: "blocks", "threads", "blocks_per_sm", "bytes", "gpus", ...
  std::string valid;      ///< where the value holds, and what it leaves out
  bool verified = false;  ///< the ordering it promises was checked on data in the same run

  bool operator==(Figure const&) const = default;
};

/// What happened when a rule was broken, or whether something holds.
struct Verdict {
  std::string id;      ///< "pitfall.grid.subset"
  std::string what;    ///< what was done
  std::string answer;  ///< "held", "did not hold", "hung", "refused" or "completed"
  std::string note;    ///< counts, error text, what follows from it

  bool operator==(Verdict const&) const = default;
};

/// The tau model of one mechanism, with what it was fitted to and how well it tells what it has not seen.
struct TauModel {
  std::string mechanism;  ///< "kernel per step", "grid barrier", ...
  TauFit fit;
  double hold_out = 0;  ///< largest relative error on samples that were kept back
  std::vector<TauSample> samples, kept_back;

  bool operator==(TauModel const&) const = default;
};

struct ProbeIdentity {
  std::string gpu, driver, toolkit, library;  ///< as the CUDA runtime names them; library: Tessera's version
  int sms = 0;
  double sm_clock_ghz = 0;    ///< measured while the probe ran
  double highest_sm_ghz = 0;  ///< what the driver allows
  double memory_clock_ghz = 0;
  double power_limit_w = 0;
  int gpus = 1;  ///< that can reach each other's memory
  std::string commit, date;

  bool operator==(ProbeIdentity const&) const = default;
};

struct Probe {
  ProbeIdentity identity;
  std::vector<ProbeIdentity> also;  ///< other runs that figures were taken from
  bool quick = false;
  double seconds = 0;
  std::vector<Figure> figures;
  std::vector<Verdict> verdicts;
  std::vector<TauModel> tau;

  bool operator==(Probe const&) const = default;
};

}  // namespace tessera
