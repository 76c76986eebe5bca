#include "tools/commands/evaluation_text.h"

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/text.h"
#include "tools/flags/model_flags.h"
#include "tools/terminal/table.h"
#include "tools/terminal/units.h"

namespace ballast::tools {
namespace {

// Columns shown of the text before a prediction.
constexpr std::size_t kContextColumns = 28;
constexpr std::size_t kTokenColumns = 16;

std::string optional_figure(const std::optional<double>& value) {
  return value ? format_figure(*value) : std::string();
}

/// Lists the perplexity along a stream.
std::string segment_table(const Evaluation& evaluation) {
  if (evaluation.segments.empty()) return {};
  using enum Table::Align;
  std::vector<Table::Column> columns = {{"from token", kRight}, {"tokens", kRight}, {"perplexity", kRight}};
  const bool divergence = evaluation.kl_mean.has_value();
  if (divergence) columns.push_back({"KL", kRight});
  Table table(std::move(columns));
  for (const StreamSegment& segment : evaluation.segments) {
    std::vector<std::string> row = {report::count(segment.first), report::count(segment.tokens),
                                    format_fixed(segment.ppl, 2)};
    if (divergence) row.push_back(optional_figure(segment.kl_mean));
    table.add_row(std::move(row));
  }
  return "\n" + table.text();
}

/// Lists figures by position in the chunks.
std::string position_table(const Evaluation& evaluation) {
  if (evaluation.positions.empty()) return {};
  using enum Table::Align;
  std::vector<Table::Column> columns = {{"position", kRight}, {"tokens", kRight}, {"perplexity", kRight}};
  const bool reference = evaluation.kl_mean.has_value();
  if (reference) columns.insert(columns.end(), {{"reference's", kRight}, {"KL", kRight}});
  Table table(std::move(columns));
  for (const PositionRange& range : evaluation.positions) {
    std::string place = std::to_string(range.first);
    if (range.last > range.first) place += "–" + std::to_string(range.last);
    std::vector<std::string> row = {place, report::count(range.tokens), format_fixed(range.ppl, 2)};
    if (reference) {
      row.push_back(format_fixed(*range.reference_ppl, 2));
      row.push_back(optional_figure(range.kl_mean));
    }
    table.add_row(std::move(row));
  }
  return "\n" + table.text();
}

/// Returns the end of a text, which may begin in the middle of a character.
std::string shown_context(std::string_view bytes) {
  std::string shown = report::printable(text::from_code_point(bytes));
  if (text::display_width(shown) <= kContextColumns) return shown;
  return "…" + std::string(text::last_columns(shown, kContextColumns - 1));
}

std::string shown_token(const Prediction& prediction, double probability) {
  return report::shortened(report::visible(prediction.text), kTokenColumns) + " " + format_percent(probability);
}

/// Lists the predictions that differ most.
std::string worst_table(const Evaluation& evaluation) {
  if (evaluation.worst.empty()) return {};
  using enum Table::Align;
  Table table({{"KL", kRight},
               {"chunk", kRight},
               {"position", kRight},
               {"text before", kRight},
               {"what follows"},
               {"the reference's top"},
               {"the model's top"}});
  for (const DivergentToken& token : evaluation.worst) {
    table.add_row(
        {format_figure(token.kl), std::to_string(token.chunk), std::to_string(token.position),
         shown_context(token.context),
         shown_token(token.next, token.reference_probability) + " → " + format_percent(token.next.probability),
         shown_token(token.reference_top, token.reference_top.probability),
         shown_token(token.top, token.top.probability)});
  }
  return "\n" + table.text();
}

}  // namespace

std::string evaluation_sheet(const Evaluation& evaluation) {
  Table sheet({{}, {}});
  sheet.add_row({"perplexity", format_fixed(evaluation.ppl, 4) + " ± " + format_fixed(evaluation.ppl_stderr, 4)});
  if (evaluation.reference_ppl) sheet.add_row({"reference's", format_fixed(*evaluation.reference_ppl, 4)});
  if (evaluation.kl_mean) {
    std::string divergence = format_figure(*evaluation.kl_mean) + " nats per token";
    if (evaluation.kl_p99) divergence += ", 99 % below " + format_figure(*evaluation.kl_p99);
    sheet.add_row({"KL divergence", divergence});
  }
  if (evaluation.top1_agreement) sheet.add_row({"same top token", format_percent(*evaluation.top1_agreement, 2)});
  if (evaluation.segments.empty()) {
    sheet.add_row(
        {"tokens scored", report::count(evaluation.tokens) + " in " + report::count(evaluation.chunks) + " chunks"});
  } else {
    sheet.add_row({"tokens scored", report::count(evaluation.tokens) + " in one stream"});
    sheet.add_row({"cache", text::format_bytes(evaluation.cache_bytes)});
  }
  sheet.add_row({"tensor files", text::format_bytes(evaluation.file_bytes) + ", " +
                                     format_fixed(evaluation.bits_per_weight, 2) + " bits per weight"});
  if (evaluation.experts) sheet.add_row({"experts", expert_text(*evaluation.experts)});
  sheet.add_row({"time", format_duration(evaluation.seconds)});
  return sheet.text() + segment_table(evaluation) + position_table(evaluation) + worst_table(evaluation);
}

std::string choice_sheet(const ChoiceEvaluation& evaluation) {
  const auto share = [](double value, double error) {
    return format_percent(value, 2) + " ± " + format_fixed(error * 100, 2);
  };
  Table sheet({{}, {}});
  sheet.add_row({"right answers", share(evaluation.model.acc, evaluation.model.acc_stderr)});
  sheet.add_row({"by characters", share(evaluation.model.acc_norm, evaluation.model.acc_norm_stderr)});
  if (evaluation.reference) {
    sheet.add_row({"reference's", share(evaluation.reference->acc, evaluation.reference->acc_stderr)});
    sheet.add_row({"by characters", share(evaluation.reference->acc_norm, evaluation.reference->acc_norm_stderr)});
  }
  if (evaluation.agreement && evaluation.agreement_norm) {
    sheet.add_row({"same answers", format_percent(*evaluation.agreement, 2) + ", by characters " +
                                       format_percent(*evaluation.agreement_norm, 2)});
  }
  sheet.add_row({"questions", report::count(evaluation.questions)});
  sheet.add_row({"tensor files", text::format_bytes(evaluation.file_bytes) + ", " +
                                     format_fixed(evaluation.bits_per_weight, 2) + " bits per weight"});
  sheet.add_row({"time", format_duration(evaluation.seconds)});
  return sheet.text();
}

std::string vector_sheet(const VectorComparison& comparison) {
  Table sheet({{}, {}});
  sheet.add_row({"cosine", format_fixed(comparison.cosine_mean, 6) + ", 99 % above " +
                               format_fixed(comparison.cosine_p1, 6) + ", least " +
                               format_fixed(comparison.cosine_min, 6)});
  std::string ranks = "correlation " + format_fixed(comparison.rank_correlation, 6);
  if (comparison.ranked_texts < comparison.texts) {
    ranks += " among the first " + report::count(comparison.ranked_texts) + " texts";
  }
  sheet.add_row({"ranks of others", ranks});
  sheet.add_row({"same nearest text", format_percent(comparison.nearest_agreement, 2) + ", of the nearest ten " +
                                          format_percent(comparison.top10_agreement, 2)});
  sheet.add_row({"texts", report::count(comparison.texts) + ", " + report::count(comparison.tokens) + " tokens"});
  sheet.add_row({"tensor files", text::format_bytes(comparison.file_bytes) + ", " +
                                     format_fixed(comparison.bits_per_weight, 2) + " bits per weight"});
  sheet.add_row({"time", format_duration(comparison.seconds)});
  return sheet.text();
}

}  // namespace ballast::tools
