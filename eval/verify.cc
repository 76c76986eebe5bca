#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "ballast/error.h"
#include "ballast/evaluate.h"
#include "eval/scorer.h"
#include "files/safetensors/safetensors_file.h"
#include "kernels/logits.h"

namespace ballast {

namespace {

/// What a run is compared with.
struct Expected {
  std::size_t batch = 0;
  std::size_t tokens = 0;
  std::size_t vocab_size = 0;
  std::vector<int> ids;       ///< [batch][tokens]
  std::vector<float> logits;  ///< [batch][tokens][vocab]
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

Expected read_expected(const std::filesystem::path& path, std::size_t vocab_size) {
  const files::SafetensorsFile file(path);
  const TensorView& ids = file.tensor("input_ids");
  const TensorView& logits = file.tensor("logits");
  Expected expected;
  expected.ids = read_ids(ids, path.string() + ": input_ids");
  expected.batch = static_cast<std::size_t>(ids.shape[0]);
  expected.tokens = static_cast<std::size_t>(ids.shape[1]);
  expected.vocab_size = vocab_size;
  const Shape wanted = {ids.shape[0], ids.shape[1], static_cast<std::int64_t>(vocab_size)};
  if (logits.shape != wanted) {
    throw Error(path.string() + ": logits",
                "has shape " + shape_string(logits.shape) + ", the model gives " + shape_string(wanted));
  }
  if (expected.ids.empty()) throw Error(path.string() + ": input_ids", "is empty");
  expected.logits.resize(static_cast<std::size_t>(element_count(logits.shape)));
  files::decode_floats(logits, path.string() + ": logits", expected.logits.data());
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

Verification verify(const std::filesystem::path& path, const std::filesystem::path& expected_path, double tolerance) {
  auto source = std::make_unique<model::ModelSource>(path);
  const Expected expected = read_expected(expected_path, source->spec().vocab_size);
  source->lengthen_for(expected.tokens);
  const model::Model model(std::move(source));
  eval::SequenceRunner runner(model, model.make_exact_state(expected.tokens));

  Verification result;
  std::size_t same_top = 0;
  for (std::size_t b = 0; b < expected.batch; ++b) {
    runner.restart();
    runner.run(std::span(expected.ids).subspan(b * expected.tokens, expected.tokens));
    for (std::size_t first = 0; first < expected.tokens; first += eval::kLogitRows) {
      const std::size_t count = std::min(eval::kLogitRows, expected.tokens - first);
      const std::span<const float> logits = runner.logits(first, count);
      for (std::size_t i = 0; i < count; ++i) {
        const float* got = logits.data() + i * expected.vocab_size;
        const float* wanted = expected.logits.data() + ((b * expected.tokens) + first + i) * expected.vocab_size;
        for (std::size_t v = 0; v < expected.vocab_size; ++v) {
          const double error = std::abs(double{got[v]} - double{wanted[v]});
          if (!std::isfinite(error)) throw Error(path.string(), "gives logits that are not finite");
          result.max_abs_error = std::max(result.max_abs_error, error);
        }
        result.kl_mean += kernels::kl_divergence(wanted, got, expected.vocab_size);
        same_top += kernels::argmax(wanted, expected.vocab_size) == kernels::argmax(got, expected.vocab_size) ? 1 : 0;
      }
    }
  }
  const auto positions = static_cast<double>(expected.ids.size());
  const double spread = standard_deviation(expected.logits);
  if (spread == 0) throw Error(expected_path.string() + ": logits", "are all the same: nothing to compare with");
  result.relative_error = result.max_abs_error / spread;
  result.kl_mean /= positions;
  result.top1_agreement = static_cast<double>(same_top) / positions;
  result.ok = result.relative_error <= tolerance;
  return result;
}

std::string verification_json(const Verification& verification) {
  return nlohmann::json{{"max_abs_error", verification.max_abs_error},
                        {"relative_error", verification.relative_error},
                        {"kl_mean", verification.kl_mean},
                        {"top1_agreement", verification.top1_agreement},
                        {"ok", verification.ok}}
      .dump();
}

}  // namespace ballast
