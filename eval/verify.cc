#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "ballast/evaluate.h"
#include "engine/text_classifier.h"
#include "eval/scorer.h"
#include "files/safetensors/safetensors_file.h"
#include "formats/decode_floats.h"
#include "kernels/logits.h"

namespace ballast {

namespace {

/// Sequences of tokens.
struct Sequences {
  std::size_t batch = 0;
  std::size_t tokens = 0;
  std::vector<int> ids;              ///< [batch][tokens]
  std::vector<std::uint8_t> types;   ///< [batch][tokens], or empty
  std::vector<std::size_t> lengths;  ///< of each sequence without padding

  model::TokenSpan at(std::size_t index) const {
    const std::span<const std::uint8_t> all_types = types;
    const std::size_t first = index * tokens;
    return {std::span(ids).subspan(first, lengths[index]),
            {},
            all_types.empty() ? all_types : all_types.subspan(first, lengths[index])};
  }
};

/// The expected output of a run.
struct Expected {
  std::string name;           ///< of the tensor
  std::size_t rows = 0;       ///< outputs of a sequence: as many as tokens, or 1 for a classifier of texts
  std::size_t width = 0;      ///< size of the vocabulary, of hidden values, or the number of labels
  Sequences texts;            ///< that the output is of
  Sequences source_texts;     ///< that an encoder reads before; empty without one
  std::vector<float> values;  ///< [batch][rows][width]
};

/// Reads whole numbers from 0 to `most` of a tensor [batch, tokens].
std::vector<int> read_numbers(const TensorView& view, const std::string& context, int most = INT32_MAX) {
  if (view.shape.size() != 2 || (view.dtype != DType::kI64 && view.dtype != DType::kI32)) {
    throw Error(context, "must be I64 or I32 [batch, tokens], is " + std::string(dtype_info(view.dtype).name) + " " +
                             shape_string(view.shape));
  }
  std::vector<int> numbers(static_cast<std::size_t>(element_count(view.shape)));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::int64_t number = 0;
    if (view.dtype == DType::kI64) {
      std::memcpy(&number, view.bytes.data() + i * sizeof number, sizeof number);
    } else {
      std::int32_t narrow = 0;
      std::memcpy(&narrow, view.bytes.data() + i * sizeof narrow, sizeof narrow);
      number = narrow;
    }
    if (number < 0 || number > most) throw Error(context, "holds the number " + std::to_string(number));
    numbers[i] = static_cast<int>(number);
  }
  return numbers;
}

/// Reads a tensor beside that of ids, of the same shape; empty if the file has none.
std::vector<int> read_beside(const files::SafetensorsFile& file, const std::string& name, const Shape& shape,
                             int most) {
  if (!file.contains(name)) return {};
  const TensorView& view = file.tensor(name);
  const std::string context = file.path().string() + ": " + name;
  if (view.shape != shape) {
    throw Error(context, "has shape " + shape_string(view.shape) + ", the ids have " + shape_string(shape));
  }
  return read_numbers(view, context, most);
}

/// Returns the lengths of sequences that are padded after their end.
std::vector<std::size_t> read_lengths(const files::SafetensorsFile& file, const std::string& name, const Shape& shape) {
  const auto batch = static_cast<std::size_t>(shape[0]);
  const auto tokens = static_cast<std::size_t>(shape[1]);
  const std::vector<int> mask = read_beside(file, name, shape, 1);
  std::vector<std::size_t> lengths(batch, tokens);
  if (mask.empty()) return lengths;
  for (std::size_t b = 0; b < batch; ++b) {
    const std::span<const int> row = std::span(mask).subspan(b * tokens, tokens);
    lengths[b] = static_cast<std::size_t>(std::ranges::find(row, 0) - row.begin());
    if (lengths[b] == 0 || std::ranges::find(row.subspan(lengths[b]), 1) != row.end()) {
      throw Error(file.path().string() + ": " + name,
                  "row " + std::to_string(b) + " is not ones and then zeros: only padding after a text is supported");
    }
  }
  return lengths;
}

/// Reads the tensors `before` + "input_ids" and "attention_mask".
Sequences read_sequences(const files::SafetensorsFile& file, const std::string& before) {
  const std::string name = before + "input_ids";
  const TensorView& ids = file.tensor(name);
  const std::string context = file.path().string() + ": " + name;
  Sequences sequences;
  sequences.ids = read_numbers(ids, context);
  if (sequences.ids.empty()) throw Error(context, "is empty");
  sequences.batch = static_cast<std::size_t>(ids.shape[0]);
  sequences.tokens = static_cast<std::size_t>(ids.shape[1]);
  sequences.lengths = read_lengths(file, before + "attention_mask", ids.shape);
  return sequences;
}

/// Returns transformers' name of the model's output.
const char* output_name(const ModelSpec& spec) {
  return spec.has_head || spec.stores_classifier() ? "logits" : "last_hidden_state";
}

Expected read_expected(const std::filesystem::path& path, const ModelSpec& spec) {
  const files::SafetensorsFile file(path);
  Expected expected;
  expected.name = output_name(spec);
  expected.texts = read_sequences(file, spec.encoder ? "decoder_" : "");
  const auto batch = static_cast<std::int64_t>(expected.texts.batch);
  const auto tokens = static_cast<std::int64_t>(expected.texts.tokens);
  if (spec.encoder) {
    expected.source_texts = read_sequences(file, "");
    if (expected.source_texts.batch != expected.texts.batch) {
      throw Error(path.string() + ": input_ids", "has " + std::to_string(expected.source_texts.batch) +
                                                     " texts, decoder_input_ids has " + std::to_string(batch));
    }
  }
  for (const int type : read_beside(file, "token_type_ids", {batch, tokens}, UINT8_MAX)) {
    expected.texts.types.push_back(static_cast<std::uint8_t>(type));
  }
  const TensorView& values = file.tensor(expected.name);
  expected.width = spec.stores_classifier() ? spec.classifier->labels.size()
                   : spec.has_head          ? spec.vocab_size
                                            : spec.hidden_size;
  const bool of_texts = spec.stores_classifier() && !spec.classifier->of_tokens;
  expected.rows = of_texts ? 1 : expected.texts.tokens;
  const auto width = static_cast<std::int64_t>(expected.width);
  const Shape wanted = of_texts ? Shape{batch, width} : Shape{batch, tokens, width};
  if (values.shape != wanted) {
    throw Error(path.string() + ": " + expected.name,
                "has shape " + shape_string(values.shape) + ", the model gives " + shape_string(wanted));
  }
  expected.values.resize(static_cast<std::size_t>(element_count(values.shape)));
  formats::decode_floats(values, path.string() + ": " + expected.name, expected.values.data());
  file.check_whole();
  return expected;
}

/// Compares computed rows with expected ones.
class Comparison {
 public:
  Comparison(const std::filesystem::path& model, const Expected& expected, bool of_logits)
      : context_(model.string()), expected_(expected), result_{.of_logits = of_logits} {}

  /// Compares rows from row `first` of a sequence on.
  void add(std::size_t sequence, std::size_t first, std::span<const float> rows) {
    const std::size_t width = expected_.width;
    const float* wanted = expected_.values.data() + (sequence * expected_.rows + first) * width;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double error = std::abs(double{rows[i]} - double{wanted[i]});
      if (!std::isfinite(error)) throw Error(context_, "gives " + expected_.name + " that are not finite");
      result_.max_abs_error = std::max(result_.max_abs_error, error);
      compared_.push_back(wanted[i]);
    }
    if (!result_.of_logits) return;
    for (std::size_t row = 0; row < rows.size(); row += width, ++positions_) {
      const float* got = rows.data() + row;
      result_.kl_mean += kernels::kl_divergence(wanted + row, got, width);
      same_top_ += kernels::argmax(wanted + row, width) == kernels::argmax(got, width) ? 1 : 0;
    }
  }

  Verification result(double tolerance, const std::filesystem::path& expected_path) {
    const double spread = standard_deviation();
    if (spread == 0) {
      throw Error(expected_path.string() + ": " + expected_.name, "are all the same: nothing to compare with");
    }
    result_.relative_error = result_.max_abs_error / spread;
    if (positions_ > 0) {
      result_.kl_mean /= static_cast<double>(positions_);
      result_.top1_agreement = static_cast<double>(same_top_) / static_cast<double>(positions_);
    }
    result_.ok = result_.relative_error <= tolerance;
    return result_;
  }

 private:
  /// Returns the deviation of the expected values, those of padding excepted.
  double standard_deviation() const {
    double sum = 0;
    for (const float value : compared_) sum += value;
    const double center = sum / static_cast<double>(compared_.size());
    double squares = 0;
    for (const float value : compared_) squares += (value - center) * (value - center);
    return std::sqrt(squares / static_cast<double>(compared_.size()));
  }

  std::string context_;
  const Expected& expected_;
  Verification result_;
  std::vector<float> compared_;
  std::size_t positions_ = 0;
  std::size_t same_top_ = 0;
};

}  // namespace

Verification verify(const std::filesystem::path& path, const std::filesystem::path& expected_path, double tolerance,
                    const ComputeOptions& compute, const std::optional<AdapterFiles>& adapter) {
  auto source = std::make_unique<model::ModelSource>(path);
  const Expected expected = read_expected(expected_path, source->spec());
  source->lengthen_for(std::max(expected.texts.tokens, expected.source_texts.tokens));
  const model::Model model(std::move(source), model::FloatLayout::kRows, model::all_floats(compute));
  eval::SequenceRunner runner(model, model.make_exact_state(expected.texts.tokens, model.load_adapter(adapter)));
  const std::size_t hidden_size = model.spec().hidden_size;
  Comparison comparison(path, expected, model.spec().has_head);
  model::Workspace workspace;
  for (std::size_t b = 0; b < expected.texts.batch; ++b) {
    runner.restart();
    if (model.spec().encoder) runner.read_source(expected.source_texts.at(b));
    const std::size_t length = expected.texts.lengths[b];
    const std::span<const float> hidden = runner.run(expected.texts.at(b));
    if (model.spec().stores_classifier()) {
      engine::TextClassifier reader(*model.classifier(), hidden_size);
      reader.read(model.normalized(hidden, workspace));
      comparison.add(b, 0, reader.scores());
      continue;
    }
    for (std::size_t first = 0; first < length; first += eval::kLogitRows) {
      const std::size_t count = std::min(eval::kLogitRows, length - first);
      comparison.add(b, first,
                     model.spec().has_head
                         ? runner.logits(first, count)
                         : model.normalized(hidden.subspan(first * hidden_size, count * hidden_size), workspace));
    }
  }
  return comparison.result(tolerance, expected_path);
}

std::string verification_json(const Verification& verification) {
  nlohmann::json json = {{"max_abs_error", verification.max_abs_error},
                         {"relative_error", verification.relative_error},
                         {"ok", verification.ok}};
  if (verification.of_logits) {
    json["kl_mean"] = verification.kl_mean;
    json["top1_agreement"] = verification.top1_agreement;
  }
  return json.dump();
}

}  // namespace ballast
