// Any bytes as a file of the prefix cache on disk: it is read into a cache of this layout, which a sequence can use, or
// refused with an Error. The input is also tried with the name and the hash that its bytes should have, because no
// search finds a hash.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "ballast/spec.h"
#include "files/content_hash.h"
#include "files/private_file.h"
#include "model/mixer/state_file.h"

namespace {

using ballast::model::KeyValueCacheOptions;
using ballast::model::SequenceState;
using ballast::model::StateFileHeader;
using ballast::model::StateKey;
using ballast::model::StatePart;

constexpr std::size_t kPage = 128;

/// Returns a state with one layer that attends, with a cache in INT8, and one short convolution.
SequenceState make_state() {
  ballast::ModelSpec spec;
  spec.layers.resize(2);
  ballast::AttentionSpec attention;
  attention.heads = attention.kv_heads = 1;
  attention.head_size = attention.value_size = 4;
  spec.layers[0].mixer = attention;
  ballast::ShortConvolutionSpec convolution;
  convolution.channels = 2;
  convolution.width = 3;
  spec.layers[1].mixer = convolution;
  KeyValueCacheOptions options;
  options.type = ballast::kernels::CacheType::kInt8;
  options.capacity = 2 * kPage;
  return SequenceState(spec, options);
}

/// A file in memory as far as the system has such.
class ScratchFile {
 public:
  ScratchFile() : path_(folder() / ("ballast-fuzz-" + std::to_string(::getpid()))) {}
  ~ScratchFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  std::optional<ballast::files::InputFile> with(std::span<const std::byte> content) const {
    const std::span<const std::byte> parts[] = {content};
    ballast::files::write_private_file(path_, path_.string() + ".partial", parts, 0);
    return ballast::files::InputFile::open(path_);
  }

 private:
  static std::filesystem::path folder() {
    const std::filesystem::path memory = "/dev/shm";
    return std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
  }

  std::filesystem::path path_;
};

void try_file(std::span<const std::byte> content, const SequenceState& like) {
  static const ScratchFile scratch;
  for (const bool mixers : {false, true}) {
    try {
      const auto file = scratch.with(content);
      StatePart part = ballast::model::read_state_file(*file, StateKey{}, like, {.page = true, .mixers = mixers});
      SequenceState state = like;
      state.adopt(0, std::move(part.page), kPage);
      if (part.mixers) state.set_mixers(*std::move(part.mixers));
      // The sequence continues: the slots' rows are read, and new ones are added.
      if (state.cache().fp16_tokens(0) > kPage) std::abort();
      const std::vector<float> row(4, 1.0F);
      const std::vector<std::uint8_t> fp16 = {1};
      state.cache().truncate(kPage - 1);
      state.cache().append(0, row.data(), 4, row.data(), 4, 1, fp16);
    } catch (const ballast::Error&) {  // NOLINT(bugprone-empty-catch): most inputs are refused
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const SequenceState like = make_state();
  const std::span<const std::byte> input = std::as_bytes(std::span(data, size));
  try_file(input, like);
  if (size < sizeof(StateFileHeader)) return 0;
  std::vector<std::byte> fixed(input.begin(), input.end());
  std::memset(fixed.data() + offsetof(StateFileHeader, key), 0, sizeof(StateKey));
  const std::span<const std::byte> all(fixed);
  const std::uint64_t hash =
      ballast::files::content_hash({all.first(offsetof(StateFileHeader, hash)), all.subspan(sizeof(StateFileHeader))});
  std::memcpy(fixed.data() + offsetof(StateFileHeader, hash), &hash, sizeof hash);
  try_file(fixed, like);
  return 0;
}
