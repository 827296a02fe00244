// SPDX-License-Identifier: Apache-2.0
// A study as tables, and the tables as text, JSON, CSV and one page with plots.
#pragma once

#include <string>
#include <variant>
#include <vector>

namespace tessera {

struct CusyncStudy;
struct FusedCollective;
struct SplitPoint;
struct MachineProfile;
struct OverlapStudy;
struct RoleLoop;
struct RoleMachine;
struct RolePrediction;

using StudyCell = std::variant<std::string, double>;

/// How a table is drawn; columns by index.
struct StudyPlot {
  enum class Kind { none, bars, lines } kind = Kind::none;
  std::vector<int> labels;  ///< bars: what names a group; lines: the one column of x
  std::vector<int> values;
  double floor = 0;  ///< where the axis starts
  std::string unit;
};

struct StudyTable {
  std::string id;  ///< "figure-16"
  std::string title;
  std::string note;  ///< what the paper states, and what to make of the difference
  std::vector<std::string> columns;
  std::vector<std::vector<StudyCell>> rows;
  StudyPlot plot;
  std::vector<int> wide_columns{};  ///< left out where lines are short (study_text)
  int verdict_column = -1;  ///< whose cells are verdicts, shown so that no two can be taken for each other
};

struct StudyDocument {
  std::string title;
  std::vector<std::string> notes;
  std::vector<StudyTable> tables;
  std::string machine;  ///< the machine profile as JSON, without what a probe found: nothing is left to guess
};

StudyDocument study_document(OverlapStudy const& study);
/// Only the table of collectives.
StudyDocument study_document(MachineProfile const& machine, std::vector<FusedCollective> const& collectives);
/// Only the table of split-K.
StudyDocument study_document(MachineProfile const& machine, std::vector<SplitPoint> const& points);
StudyDocument study_document(CusyncStudy const& study);
/// A loop with roles, simulated with these figures: its time, its boundaries, its stages, and the figures.
StudyDocument study_document(RoleLoop const& loop, RolePrediction const& made, RoleMachine const& figures,
                             MachineProfile const& machine);

std::string study_text(StudyDocument const& document,
                       std::vector<std::string> const& ids = {});  ///< empty: all
/// Title, all tables with their notes, and notes: for a reader who sees nothing else.
std::string study_page_text(StudyDocument const& document);
std::string study_json(StudyDocument const& document);  ///< "schema": "tessera.study/1"
std::string study_csv(StudyDocument const& document);   ///< table,row,column,value
std::string study_html(StudyDocument const& document);

}  // namespace tessera
