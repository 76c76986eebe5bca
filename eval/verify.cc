#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "ballast/error.h"
#include "ballast/evaluate.h"
#include "eval/scorer.h"
#include "files/safetensors/safetensors_file.h"
#include "formats/decode_floats.h"
#include "kernels/logits.h"

namespace ballast {

namespace {

/// The expected output of a run.
struct Expected {
  std::string name;  ///< of the tensor
  std::size_t batch = 0;
  std::size_t tokens = 0;
  std::size_t width = 0;      ///< size of the vocabulary, or of hidden values
  std::vector<int> ids;       ///< [batch][tokens]
  std::vector<float> values;  ///< [batch][tokens][width]
};

std::vector<int> read_ids(const TensorView& view, const std::string& context) {
  if (view.shape.size() != 2 || (view.dtype != DType::kI64 && view.dtype != DType::kI32)) {
    throw Error(context, "must be I64 or I32 [batch, tokens], is " + std::string(dtype_info(view.dtype).name) + " " +
                             shape_string(view.shape));
  }
  std::vector<int> ids(static_cast<std::size_t>(element_count(view.shape)));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::int64_t id = 0;
    if (view.dtype == DType::kI64) {
      std::memcpy(&id, view.bytes.data() + i * sizeof id, sizeof id);
    } else {
      std::int32_t narrow = 0;
      std::memcpy(&narrow, view.bytes.data() + i * sizeof narrow, sizeof narrow);
      id = narrow;
    }
    if (id < 0 || id > INT32_MAX) throw Error(context, "holds the id " + std::to_string(id));
    ids[i] = static_cast<int>(id);
  }
  return ids;
}

/// Reads the expected values; for a model without a head they have transformers' name of its output.
Expected read_expected(const std::filesystem::path& path, const ModelSpec& spec) {
  const files::SafetensorsFile file(path);
  Expected expected{.name = spec.has_head ? "logits" : "last_hidden_state", .ids = {}, .values = {}};
  const TensorView& ids = file.tensor("input_ids");
  const TensorView& values = file.tensor(expected.name);
  expected.ids = read_ids(ids, path.string() + ": input_ids");
  expected.batch = static_cast<std::size_t>(ids.shape[0]);
  expected.tokens = static_cast<std::size_t>(ids.shape[1]);
  expected.width = spec.has_head ? spec.vocab_size : spec.hidden_size;
  const Shape wanted = {ids.shape[0], ids.shape[1], static_cast<std::int64_t>(expected.width)};
  if (values.shape != wanted) {
    throw Error(path.string() + ": " + expected.name,
                "has shape " + shape_string(values.shape) + ", the model gives " + shape_string(wanted));
  }
  if (expected.ids.empty()) throw Error(path.string() + ": input_ids", "is empty");
  expected.values.resize(static_cast<std::size_t>(element_count(values.shape)));
  formats::decode_floats(values, path.string() + ": " + expected.name, expected.values.data());
  file.check_whole();
  return expected;
}

double standard_deviation(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += value;
  const double center = sum / static_cast<double>(values.size());
  double squares = 0;
  for (const float value : values) squares += (value - center) * (value - center);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

}  // namespace

Verification verify(const std::filesystem::path& path, const std::filesystem::path& expected_path, double tolerance,
                    const ComputeOptions& compute) {
  auto source = std::make_unique<model::ModelSource>(path);
  const Expected expected = read_expected(expected_path, source->spec());
  source->lengthen_for(expected.tokens);
  const model::Model model(std::move(source), model::FloatLayout::kRows, model::all_floats(compute));
  eval::SequenceRunner runner(model, model.make_exact_state(expected.tokens));

  Verification result{.of_logits = model.spec().has_head};
  model::Workspace workspace;
  std::size_t same_top = 0;
  for (std::size_t b = 0; b < expected.batch; ++b) {
    runner.restart();
    const std::span<const float> hidden =
        runner.run(std::span(expected.ids).subspan(b * expected.tokens, expected.tokens));
    const std::size_t hidden_size = model.spec().hidden_size;
    for (std::size_t first = 0; first < expected.tokens; first += eval::kLogitRows) {
      const std::size_t count = std::min(eval::kLogitRows, expected.tokens - first);
      const std::span<const float> rows =
          result.of_logits ? runner.logits(first, count)
                           : model.normalized(hidden.subspan(first * hidden_size, count * hidden_size), workspace);
      for (std::size_t i = 0; i < count; ++i) {
        const float* got = rows.data() + i * expected.width;
        const float* wanted = expected.values.data() + ((b * expected.tokens) + first + i) * expected.width;
        for (std::size_t c = 0; c < expected.width; ++c) {
          const double error = std::abs(double{got[c]} - double{wanted[c]});
          if (!std::isfinite(error))
            throw Error(path.string(),
                        std::string("gives ") + (result.of_logits ? "logits" : "values") + " that are not finite");
          result.max_abs_error = std::max(result.max_abs_error, error);
        }
        if (!result.of_logits) continue;
        result.kl_mean += kernels::kl_divergence(wanted, got, expected.width);
        same_top += kernels::argmax(wanted, expected.width) == kernels::argmax(got, expected.width) ? 1 : 0;
      }
    }
  }
  const auto positions = static_cast<double>(expected.ids.size());
  const double spread = standard_deviation(expected.values);
  if (spread == 0)
    throw Error(expected_path.string() + ": " + expected.name, "are all the same: nothing to compare with");
  result.relative_error = result.max_abs_error / spread;
  result.kl_mean /= positions;
  result.top1_agreement = static_cast<double>(same_top) / positions;
  result.ok = result.relative_error <= tolerance;
  return result;
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
