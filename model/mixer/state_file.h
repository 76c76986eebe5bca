// Files with parts of sequences' states, so that a text that was read once need not be read again.
//
// A file is, in the machine's byte order: a header of 64 bytes (StateFileHeader), for each layer with keys and values
// the bytes of its F16 rows (32 bits each, filled with zeros to a multiple of 8), a page of each such layer followed by
// its F16 rows, and the values of all mixers' states. Its hash is of everything but itself. Page and states are each
// present or not.
#ifndef BALLAST_MODEL_MIXER_STATE_FILE_H_
#define BALLAST_MODEL_MIXER_STATE_FILE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "files/private_file.h"
#include "model/cache/key_value_cache.h"
#include "model/mixer/sequence_state.h"

namespace ballast::model {

/// The version of the files' format.
inline constexpr std::uint32_t kStateFileVersion = 1;

/// The name of a part: a hash of everything that its contents depend on.
using StateKey = std::array<std::byte, 32>;

struct StateFileHeader {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t layers;  ///< with a page in the file
  StateKey key;
  std::uint64_t payload;  ///< bytes after the sizes of the F16 rows
  std::uint64_t hash;     ///< content_hash() of the header before it, the sizes and the payload
};
static_assert(sizeof(StateFileHeader) == 64);

/// A part of a sequence's state.
struct StatePart {
  std::vector<StoredPage> page{};       ///< of each layer with keys and values; empty: none
  std::optional<MixerStates> mixers{};  ///< after the part's last token
};

/// The contents of a file with a part.
class StateFile {
 public:
  StateFile(const StateKey& key, StatePart part);
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  /// Returns the file's bytes, to be written one after the other.
  std::span<const std::span<const std::byte>> parts() const { return parts_; }
  std::uint64_t size() const;

 private:
  StatePart part_;
  std::vector<std::uint32_t> fp16_bytes_;
  StateFileHeader header_;
  std::vector<std::span<const std::byte>> parts_;
};

/// What a file must have.
struct StatePartKind {
  bool page = true;
  bool mixers = false;
};

/// Returns the size of a file with a page without F16 rows, or without a page.
std::uint64_t least_state_file_bytes(const SequenceState& like, const StatePartKind& kind);

/// Reads a part for a sequence with the layout of `like`; pages come from its pool. Throws Error naming the file and
/// what is wrong: it has another size, version, name or hash, or slots that refer to missing rows.
StatePart read_state_file(const files::InputFile& file, const StateKey& key, const SequenceState& like,
                          const StatePartKind& kind);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_MIXER_STATE_FILE_H_
