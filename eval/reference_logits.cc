#include "eval/reference_logits.h"

#include <limits>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "eval/scorer.h"
#include "files/atomic_output.h"
#include "files/content_hash.h"
#include "files/safetensors/safetensors_writer.h"
#include "files/text.h"
#include "jobs/job_key.h"
#include "model/model.h"

namespace ballast::eval {
namespace {

namespace fs = std::filesystem;

std::string tensor_name(std::size_t chunk, const PositionRun& run) {
  return files::concat(chunk, ".", run.first);
}

// Returns a hash of everything that the logits depend on, and of the positions that are stored.
std::string key_of(const files::Checkpoint& reference, const ComputeOptions& compute, const TextChunks& chunks) {
  jobs::JobKey key(compute);
  key.add("job", "F32 logits").add("model", content_identity(reference));
  key.add("tokens", files::content_digits(std::as_bytes(std::span(chunks.ids)))).add("chunk", chunks.size);
  return key.add("first", chunks.first).add("headline", chunks.headline).digest();
}

void write_logits(const fs::path& target, std::unique_ptr<model::ModelSource> source, const ComputeOptions& compute,
                  const TextChunks& chunks, const Progress& progress) {
  const auto vocab_size = static_cast<std::int64_t>(source->spec().vocab_size);
  std::vector<files::TensorPlan> plan;
  for (std::size_t i = 0; i < chunks.count(); ++i) {
    for (const PositionRun& run : chunks.runs()) {
      plan.push_back({tensor_name(i, run), DType::kF32, {static_cast<std::int64_t>(run.count), vocab_size}});
    }
  }
  files::AtomicDirectory directory(target, false);
  // Writes one file of any size. Its space is allocated here, before the work.
  files::SafetensorsWriter writer(directory.path(), std::move(plan), {}, std::numeric_limits<std::uint64_t>::max());
  model::Model reference(std::move(source), model::FloatLayout::kRows, model::all_floats(compute));
  SequenceRunner runner(reference, reference.make_exact_state(chunks.size));
  for (std::size_t i = 0; i < chunks.count(); ++i) {
    runner.run_chunk(chunks, i);
    for (const PositionRun& run : chunks.runs()) {
      writer.write(tensor_name(i, run), std::as_bytes(runner.logits(run.first, run.count)));
    }
    if (progress) progress("running the reference", i + 1, chunks.count());
  }
  writer.finish();
  directory.commit();
}

}  // namespace

std::string content_identity(const files::Checkpoint& checkpoint) {
  const std::vector<std::string>& names = checkpoint.names();
  std::vector<std::string> sums(names.size());
#pragma omp parallel for schedule(dynamic)
  for (std::size_t i = 0; i < names.size(); ++i) {
    const TensorView view = checkpoint.tensor(names[i]);
    sums[i] = files::concat(names[i], " ", dtype_info(view.dtype).name, " ", shape_string(view.shape), " ",
                            files::content_digits(view.bytes), "\n");
    checkpoint.release(names[i]);
  }
  checkpoint.check_whole();
  std::string all = checkpoint.config().dump() + "\n";
  for (const std::string& sum : sums) all += sum;
  return files::content_digits(all);
}

ReferenceLogits::ReferenceLogits(const fs::path& directory, std::unique_ptr<model::ModelSource> reference,
                                 const ComputeOptions& compute, const TextChunks& chunks, const Progress& progress)
    : vocab_size_(reference->spec().vocab_size) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) throw Error(directory.string(), "cannot be created: " + error.message());
  const fs::path target = directory / key_of(reference->checkpoint(), compute, chunks);
  try {
    if (!fs::exists(target, error)) write_logits(target, std::move(reference), compute, chunks, progress);
  } catch (const Error&) {
    if (!fs::exists(target, error)) throw;  // otherwise another process wrote the same file meanwhile
  }
  map_ = std::make_unique<files::SafetensorsFile>(target / "model.safetensors");
}

const float* ReferenceLogits::rows(std::size_t chunk, const PositionRun& run) {
  map_->check_whole();
  if (!touched_.empty()) files::release_pages(touched_);  // so that the whole file does not accumulate in memory
  const std::string name = tensor_name(chunk, run);
  const TensorView& view = map_->tensor(name);
  const Shape shape = {static_cast<std::int64_t>(run.count), static_cast<std::int64_t>(vocab_size_)};
  const auto expected = map_->metadata().find(std::string(files::kChecksumPrefix) + name);
  if (view.dtype != DType::kF32 || view.shape != shape || expected == map_->metadata().end() ||
      expected->second != files::content_digits(view.bytes)) {
    throw Error(map_->path().string(), "is damaged: remove its directory, and it will be made again");
  }
  touched_ = view.bytes;
  return reinterpret_cast<const float*>(view.bytes.data());
}

}  // namespace ballast::eval
