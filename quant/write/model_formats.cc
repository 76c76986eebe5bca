#include "quant/write/model_formats.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "quant/write/ballast_format.h"
#include "quant/write/gguf_format.h"
#include "quant/write/huggingface/huggingface_format.h"

namespace ballast {

namespace {

struct OutputFormatName {
  OutputFormat format;
  std::string_view name;
};

constexpr std::array<OutputFormatName, 6> kOutputFormats{{
    {OutputFormat::kBallast, "ballast"},
    {OutputFormat::kGguf, "gguf"},
    {OutputFormat::kCompressedTensors, "compressed-tensors"},
    {OutputFormat::kMlx, "mlx"},
    {OutputFormat::kAwq, "awq"},
    {OutputFormat::kGptq, "gptq"},
}};

}  // namespace

std::string_view output_format_name(OutputFormat format) {
  return std::ranges::find(kOutputFormats, format, &OutputFormatName::format)->name;
}

std::vector<std::string> output_format_names() {
  std::vector<std::string> names;
  for (const OutputFormatName& format : kOutputFormats) names.emplace_back(format.name);
  return names;
}

OutputFormat parse_output_format(std::string_view name) {
  const auto it = std::ranges::find(kOutputFormats, name, &OutputFormatName::name);
  if (it != kOutputFormats.end()) return it->format;
  std::string known;
  for (const std::string& format : output_format_names()) known += (known.empty() ? "" : ", ") + format;
  throw Error("output format '" + std::string(name) + "'", "unknown; there are " + known);
}

}  // namespace ballast

namespace ballast::quant {

std::unique_ptr<ModelFormat> make_model_format(const std::shared_ptr<const model::ModelSource>& source,
                                               OutputFormat output_format, const Recipe& recipe) {
  switch (output_format) {
    case OutputFormat::kGguf:
      return std::make_unique<GgufFormat>(source);
    case OutputFormat::kCompressedTensors:
      return std::make_unique<HuggingfaceFormat>(*source, *formats::kCompressedTensorsCodec.writer);
    case OutputFormat::kMlx:
      return std::make_unique<HuggingfaceFormat>(*source, *formats::kMlxCodec.writer);
    case OutputFormat::kAwq:
      return std::make_unique<HuggingfaceFormat>(*source, *formats::kAwqCodec.writer);
    case OutputFormat::kGptq:
      return std::make_unique<HuggingfaceFormat>(*source, *formats::kGptqCodec.writer);
    case OutputFormat::kBallast:
      break;
  }
  return std::make_unique<BallastFormat>(recipe);
}

std::unique_ptr<ModelFormat> fit_model_format(const std::shared_ptr<const model::ModelSource>& source,
                                              ConvertOptions& options) {
  std::unique_ptr<ModelFormat> format = make_model_format(source, options.output_format, options.recipe);
  options.recipe = format->fitting(options.recipe);
  return format;
}

}  // namespace ballast::quant
