// A reference's logits on disk, so that many models are compared with a reference that runs once.
#ifndef BALLAST_EVAL_REFERENCE_LOGITS_H_
#define BALLAST_EVAL_REFERENCE_LOGITS_H_

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "ballast/progress.h"
#include "eval/text_chunks.h"
#include "files/safetensors/safetensors_file.h"
#include "model/source/model_source.h"

namespace ballast::eval {

/// Returns a hash of the checkpoint's tensors and configuration as 16 hexadecimal digits: equal for copies at any path.
/// Reads every byte of the model.
std::string content_identity(const files::Checkpoint& checkpoint);

/// F32 logits of the stored positions of every chunk: DIRECTORY/KEY/model.safetensors with tensors "CHUNK.POSITION"
/// [positions][vocab_size], one per run. KEY is a hash of the reference's content, the tokens and the positions, so
/// that a file is used only for the same evaluation. Written completely or not at all; mapped when read.
class ReferenceLogits {
 public:
  /// Opens the file in `directory`; if it is missing, first loads the reference, runs it over all chunks and writes the
  /// file. The file takes 4 bytes per position and id of the vocabulary: 50 MB per scored half of 512 tokens for 49,152
  /// ids. Throws Error.
  ReferenceLogits(const std::filesystem::path& directory, std::unique_ptr<model::ModelSource> reference,
                  const ComputeOptions& compute, const TextChunks& chunks, const Progress& progress);

  /// Returns logits [run.count][vocab_size] of one of a chunk's runs after checking the file's checksum. Valid until
  /// the next call.
  const float* rows(std::size_t chunk, const PositionRun& run);

 private:
  std::size_t vocab_size_;
  std::unique_ptr<files::SafetensorsFile> map_;
  std::span<const std::byte> touched_;
};

}  // namespace ballast::eval

#endif  // BALLAST_EVAL_REFERENCE_LOGITS_H_
