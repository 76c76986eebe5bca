#include <algorithm>
#include <cmath>

#include "report/calibration/figures.h"
#include "report/chart/heat_map.h"
#include "report/chart/table.h"
#include "report/chart/text.h"

namespace ballast::report {
namespace {

std::uint64_t all_tokens(const ExpertStatistics& layer) {
  std::uint64_t sum = 0;
  for (const std::uint64_t tokens : layer.tokens) sum += tokens;
  return sum;
}

std::string sentence(const Statistics& statistics) {
  std::size_t experts = 0;
  std::size_t starved = 0;
  std::size_t unused = 0;
  for (const ExpertStatistics& layer : statistics.experts) {
    experts += layer.tokens.size();
    starved += layer.starved().size();
    unused += static_cast<std::size_t>(std::ranges::count(layer.tokens, std::uint64_t{0}));
  }
  std::string text = "<strong>" + count(starved) + " of " + counted(experts, "expert", "experts") +
                     "</strong> got fewer tokens than the last of their matrices has columns, " + count(unused) +
                     " of them none.";
  if (starved > 0) {
    text +=
        " What that matrix reads was also measured on tokens that came near to being sent there; conversion weighs "
        "gate "
        "and up with what all tokens are, as far as their own are too few.";
  }
  return paragraph(text);
}

std::string table(const Statistics& statistics) {
  Table table("Experts by layer: the numbers", {{"Layer"},
                                                {"Experts"},
                                                {"Fewest tokens"},
                                                {"Most tokens"},
                                                {"Entropy, bits"},
                                                {"of at most"},
                                                {"Columns"},
                                                {"Starved"},
                                                {"Tokens that stood in"}});
  for (const ExpertStatistics& layer : statistics.experts) {
    std::uint64_t stand_ins = 0;
    for (const std::uint64_t tokens : layer.stand_ins) stand_ins += tokens;
    const auto [least, most] = std::ranges::minmax(layer.tokens);
    table.add_row({count(layer.layer), count(layer.tokens.size()), count(least), count(most), number(layer.entropy()),
                   number(std::log2(static_cast<double>(layer.tokens.size()))), count(layer.columns),
                   count(layer.starved().size()), count(stand_ins)});
  }
  return table.folded_html();
}

}  // namespace

std::string expert_figure(const Statistics& statistics) {
  HeatMap heat;
  heat.id = "experts";
  heat.text = {"Tokens of each expert by layer",
               "Heat map: one column per layer, one row per expert; how many tokens each got, over an even share. The "
               "table below sums it up by layer."};
  heat.columns = statistics.experts.size();
  for (const ExpertStatistics& layer : statistics.experts) heat.rows = std::max(heat.rows, layer.tokens.size());
  const auto share = [&](std::size_t expert, std::size_t column) {
    const ExpertStatistics& layer = statistics.experts[column];
    const std::uint64_t all = all_tokens(layer);
    if (expert >= layer.tokens.size() || all == 0) return 0.0;
    return static_cast<double>(layer.tokens[expert] * layer.tokens.size()) / static_cast<double>(all);
  };
  double largest = 1;
  for (std::size_t expert = 0; expert < heat.rows; ++expert) {
    for (std::size_t column = 0; column < heat.columns; ++column) {
      heat.cells.push_back(share(expert, column));
      largest = std::max(largest, heat.cells.back());
    }
    heat.row_labels.push_back(count(expert));
  }
  heat.scale = Scale::linear(0, largest);
  heat.scale_name = "tokens over an even share";
  heat.value_text = [](double value) { return number(value); };
  heat.row_name = "expert";
  heat.column_name = "layer";
  for (const std::size_t column : whole_ticks(1, heat.columns, 24)) {
    heat.column_labels.emplace_back(column - 1, count(statistics.experts[column - 1].layer));
  }
  heat.tooltip = [&](std::size_t expert, std::size_t column) {
    const ExpertStatistics& layer = statistics.experts[column];
    if (expert >= layer.tokens.size()) return std::string();
    return "layer " + count(layer.layer) + ", expert " + count(expert) + ": " +
           counted(layer.tokens[expert], "token", "tokens");
  };
  return sentence(statistics) + heat_map_html(heat) + table(statistics);
}

}  // namespace ballast::report
