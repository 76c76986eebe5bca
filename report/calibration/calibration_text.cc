#include "report/calibration/calibration_text.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "report/chart/table.h"
#include "report/chart/text.h"

namespace ballast::report {
namespace {

std::string in_layers(const std::vector<std::size_t>& layers) {
  return (layers.size() == 1 ? "in layer " : "in layers ") + ranges(layers);
}

std::string times_the_median(const LargestValue& largest) {
  return std::isfinite(largest.ratio()) ? rounded(largest.ratio()) + " times the median" : "far above a median of 0";
}

std::string channel_names(const Statistics& statistics) {
  std::vector<std::string> names;
  for (const MassiveChannel& channel : statistics.massive_channels) names.push_back(std::to_string(channel.channel));
  return listed(names, 6);
}

std::string item(std::string_view heading, const std::string& text) {
  return "<dt>" + std::string(heading) + "</dt>\n<dd>" + text + "</dd>\n";
}

std::string outlier_item(const Statistics& statistics, const CalibrationSummary& findings) {
  std::string text =
      "An input channel of a linear keeps 16 bits, activations and weights, if the error that this saves is worth "
      "its bytes; at most 3 in 100 of an input do. Where one format is named for all "
      "(<code>--bits</code>), the share is the recipe’s <code>outlier_fraction</code>: the channels with the largest "
      "values, or where activations are not rounded those with the most energy.";
  std::size_t outliers = 0;
  std::size_t channels = 0;
  for (const LinearKind& kind : findings.kinds) {
    for (const InputSummary& input : kind.inputs) {
      outliers += input.outliers;
      channels += input.channels;
    }
  }
  if (channels > 0) {
    text += " As counted above, " + count(outliers) + " of " +
            counted(channels, "input channel is", "input channels are") + " outliers, " +
            percent(static_cast<double>(outliers) / static_cast<double>(channels)) + ".";
  }
  if (!statistics.massive_channels.empty()) {
    const bool one = statistics.massive_channels.size() == 1;
    text += std::string(one ? " Massive channel " : " Massive channels ") + channel_names(statistics) +
            (one ? " reaches" : " reach") +
            " the linears through a norm, which shrinks the whole token: what counts for the choice is the range "
            "after it.";
  }
  return item("Outlier channels stay in 16 bits <code>split_outliers</code>", text);
}

std::string token_item(const Statistics& statistics, const CalibrationSummary& findings) {
  const std::string scales = "8-bit activations have scales of their own for each token and group of channels";
  if (!findings.massive()) {
    return item("Tokens do not share scales", scales + ", so one token’s large values cost the others nothing.");
  }
  const std::string places = massive_places(statistics);
  return item(
      "Massive tokens set no scale for others",
      scales + ": the massive values" + (places.empty() ? "" : " " + escape(places)) +
          " do not reduce the precision of other tokens. The outlier counts on this page leave massive tokens out.");
}

}  // namespace

std::string headline(const Statistics& statistics, const CalibrationSummary& findings) {
  if (!findings.massive() || !findings.largest) {
    if (!findings.largest) return "No activations were recorded";
    return "No massive activations: the largest value is " + times_the_median(*findings.largest) + " of its layer";
  }
  const std::size_t channels = std::max<std::size_t>(1, statistics.massive_channels.size());
  std::string text = count_word(channels);
  if (findings.residual_channels > 0) text += " of " + count(findings.residual_channels);
  text += channels == 1 && findings.residual_channels == 0 ? " channel" : " channels";
  text += channels == 1 ? " carries" : " carry";
  text += " values up to " + times_the_median(*findings.largest) + ", ";
  const std::string places = massive_places(statistics);
  if (!places.empty()) text += places + ", ";
  return text + in_layers(findings.massive_layers);
}

std::string provenance(const Statistics& statistics) {
  if (statistics.samples == 0) return "No text was run.";
  return "Measured on " + counted(statistics.samples, "sample", "samples") + " of " +
         counted(statistics.length, "token", "tokens") + ", seed " + std::to_string(statistics.seed) +
         ". Text: <span class=\"source\">" + escape(printable(statistics.text)) + "</span>.";
}

std::string lead(const Statistics& statistics, const CalibrationSummary& findings) {
  std::string text;
  if (findings.largest) {
    const LargestValue& largest = *findings.largest;
    text += "The largest value is " + number(largest.value.value) + ", at the output of layer " + count(largest.layer) +
            " in channel " + std::to_string(largest.value.channel) + ", on token " +
            token_html(largest.value.token_text) + " at position " + count(largest.value.position) +
            "; half of that layer’s values lie below " + number(largest.median) + ". ";
  }
  if (findings.massive()) {
    text +=
        "Such values hardly depend on the text: the model uses them as a constant, and they feed its attention "
        "sinks. An integer scale stretched to hold them leaves nothing for the others. ";
  } else if (findings.largest) {
    text += "Values are called massive from 100 and 1,000 times the median on. ";
  }
  if (!statistics.sink_share.empty()) {
    text += count(findings.sink_heads) + " of " + counted(statistics.sink_share.size(), "head", "heads") +
            (findings.sink_heads == 1 ? " is an attention sink." : " are attention sinks.");
  }
  return paragraph(text);
}

std::string conversion_plan(const Statistics& statistics, const CalibrationSummary& findings) {
  return "<dl class=\"plan\">\n" +
         item("Norm gains move into the weights <code>fold_norms</code>",
              "Each norm’s gain is multiplied into the linears that read it. The output stays the same, and the "
              "channels' "
              "ranges differ less.") +
         item("Channels are scaled against their columns <code>smooth</code>",
              "A linear's input is divided by a factor for each channel, and the channel’s column multiplied by it, "
              "so that both have ranges that small integers can hold. The output stays the same.") +
         outlier_item(statistics, findings) + token_item(statistics, findings) +
         item("Everything else becomes integers <code>quantize</code>",
              "Weights in 4 to 8 bits in small groups with a scale each, the format of each matrix chosen by its cost "
              "to "
              "the predictions; the weights of a row compensate each other’s errors (GPTQ). Activations in 8 or "
              "16 bits, depending on the scheme.") +
         item("Keys and values are cached in 8 bits, or 16 <code>--kv</code>",
              findings.sink_heads > 0
                  ? "Conversion does not touch attention itself; the tokens with massive values, which feed the sinks "
                    "found here, stay in 16 bits."
                  : "Conversion does not touch attention itself; tokens with massive values stay in 16 bits.") +
         "</dl>\n";
}

}  // namespace ballast::report
