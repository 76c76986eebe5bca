#include <algorithm>
#include <cmath>

#include "ballast/report.h"
#include "files/atomic_output.h"
#include "report/calibration/calibration_summary.h"
#include "report/calibration/calibration_text.h"
#include "report/calibration/figures.h"
#include "report/chart/page.h"
#include "report/chart/table.h"
#include "report/chart/text.h"

namespace ballast {
namespace report {
namespace {

std::string facts(const Statistics& statistics, const CalibrationSummary& findings) {
  std::vector<Fact> facts;
  if (findings.largest) {
    facts.push_back({number(std::abs(findings.largest->value.value)), "largest magnitude"});
    if (std::isfinite(findings.largest->ratio())) {
      facts.push_back({number(findings.largest->ratio()) + "×", "the median of its layer"});
    }
  }
  if (!statistics.sink_share.empty()) {
    facts.push_back(
        {count(findings.sink_heads) + " of " + count(statistics.sink_share.size()), "heads are attention sinks"});
  }
  if (findings.inputs > 0) {
    facts.push_back({count(findings.inputs_with_outliers) + " of " + count(findings.inputs),
                     "linear inputs have outlier channels"});
  }
  return facts_html(facts);
}

std::string massive_tables(const Statistics& statistics) {
  if (statistics.massive_channels.empty() && statistics.massive_tokens.empty()) {
    return paragraph("None: no channel and no token carries a massive value in any sample.");
  }
  const std::string samples = "Samples of " + count(statistics.samples);
  Table channels("Channels of the residual stream", {{"Channel"}, {samples}});
  for (const MassiveChannel& channel : statistics.massive_channels) {
    channels.add_row({std::to_string(channel.channel), count(channel.samples)});
  }
  Table tokens("Tokens", {{"Token", false}, {"Id"}, {"First seen at"}, {samples}});
  for (const MassiveToken& token : statistics.massive_tokens) {
    const bool first = token.token == MassiveToken::kFirst;
    tokens.add_row({first ? "the first token of any text" : token_html(token.token_text),
                    first ? "–" : std::to_string(token.token), count(token.position), count(token.samples)});
  }
  // Limits the table, so that dozens of massive channels do not push away the rest of the page.
  constexpr std::size_t kFewChannels = 16;
  return "<div class=\"tables\">\n" +
         (statistics.massive_channels.size() > kFewChannels ? channels.folded_html() : channels.html()) +
         tokens.html() + "</div>\n";
}

}  // namespace
}  // namespace report

std::string calibration_page(const Statistics& statistics) {
  using namespace report;  // NOLINT(google-build-using-namespace): the public entry point of this room
  const CalibrationSummary findings(statistics);
  const std::string model = statistics.model.empty() ? "unnamed model" : printable(statistics.model);
  Page page;
  page.title = model + ": calibration report";
  page.eyebrow = "Calibration report · <strong>" + escape(model) + "</strong>";
  page.headline = headline(statistics, findings);
  page.header = lead(statistics, findings) + "<p class=\"provenance\">" + provenance(statistics) + "</p>\n";
  page.content = facts(statistics, findings) + section("Magnitudes by layer", magnitude_figure(statistics, findings)) +
                 section("Positions of the largest values", activation_map_figure(statistics)) +
                 section("Massive channels and tokens", massive_tables(statistics)) +
                 section("Attention sinks", sink_figure(statistics, findings)) +
                 section("Inputs of the linears", linear_figure(findings)) +
                 section("Keys and values", key_value_figure(statistics)) +
                 (statistics.experts.empty() ? "" : section("Experts", expert_figure(statistics))) +
                 section("What conversion does", conversion_plan(statistics, findings));
  page.footer = "Layers count from 1; layer 0 is the embedding. Written by ballast.";
  return page_html(page);
}

void save_calibration_page(const Statistics& statistics, const std::filesystem::path& path, bool replace) {
  files::write_file_atomically(path, calibration_page(statistics), replace);
}

}  // namespace ballast
