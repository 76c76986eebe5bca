#include "model/mixer/state_file.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "ballast/error.h"
#include "files/content_hash.h"
#include "files/text.h"

namespace ballast::model {
namespace {

constexpr std::array<char, 8> kStateMagic = {'b', 'a', 'l', 'l', 'a', 's', 't', 'S'};

std::size_t padded_layers(std::size_t layers) {
  return (layers + 1) / 2 * 2;
}

/// Returns the bytes of a part in the order of the file.
std::vector<std::span<std::byte>> payload_of(StatePart& part) {
  std::vector<std::span<std::byte>> payload;
  for (const StoredPage& page : part.page) {
    payload.emplace_back(page.data.data(), page.data.bytes());
    if (page.fp16_bytes > 0) payload.emplace_back(page.fp16_rows.data(), page.fp16_bytes);
  }
  if (part.mixers) {
    for (const std::span<float> values : part.mixers->values()) payload.push_back(std::as_writable_bytes(values));
  }
  return payload;
}

std::span<const std::byte> hashed_part(const StateFileHeader& header) {
  return std::as_bytes(std::span(&header, 1)).first(offsetof(StateFileHeader, hash));
}

/// Hashes the header, the sizes and the payload.
std::uint64_t hash_of(const StateFileHeader& header, std::span<const std::span<const std::byte>> rest) {
  std::vector<std::span<const std::byte>> all = {hashed_part(header)};
  all.insert(all.end(), rest.begin(), rest.end());
  return files::content_hash(all);
}

std::uint64_t payload_bytes(const SequenceState& like, const StatePartKind& kind,
                            std::span<const std::uint32_t> fp16_bytes) {
  std::uint64_t bytes = kind.mixers ? like.mixer_bytes() : 0;
  if (kind.page) bytes += like.cache().page_bytes();
  return std::accumulate(fp16_bytes.begin(), fp16_bytes.end(), bytes);
}

std::size_t layers_of(const SequenceState& like, const StatePartKind& kind) {
  return kind.page ? like.cache().paged_layers() : 0;
}

[[noreturn]] void refuse(const files::InputFile& file, std::string_view problem) {
  throw Error(file.path().string(), problem);
}

}  // namespace

StateFile::StateFile(const StateKey& key, StatePart part)
    : part_(std::move(part)),
      fp16_bytes_(padded_layers(part_.page.size())),
      header_{.magic = kStateMagic,
              .version = kStateFileVersion,
              .layers = static_cast<std::uint32_t>(part_.page.size()),
              .key = key,
              .payload = 0,
              .hash = 0} {
  for (std::size_t i = 0; i < part_.page.size(); ++i) {
    fp16_bytes_[i] = static_cast<std::uint32_t>(part_.page[i].fp16_bytes);
  }
  parts_ = {std::as_bytes(std::span(&header_, 1)), std::as_bytes(std::span(fp16_bytes_))};
  for (const std::span<const std::byte> piece : payload_of(part_)) {
    parts_.push_back(piece);
    header_.payload += piece.size();
  }
  header_.hash = hash_of(header_, std::span(parts_).subspan(1));
}

std::uint64_t StateFile::size() const {
  return sizeof header_ + fp16_bytes_.size() * sizeof(std::uint32_t) + header_.payload;
}

std::uint64_t least_state_file_bytes(const SequenceState& like, const StatePartKind& kind) {
  return sizeof(StateFileHeader) + padded_layers(layers_of(like, kind)) * sizeof(std::uint32_t) +
         payload_bytes(like, kind, {});
}

StatePart read_state_file(const files::InputFile& file, const StateKey& key, const SequenceState& like,
                          const StatePartKind& kind) {
  const std::size_t layers = layers_of(like, kind);
  StateFileHeader header{};
  std::vector<std::uint32_t> sizes(padded_layers(layers));
  const std::uint64_t begin = sizeof header + sizes.size() * sizeof(std::uint32_t);
  if (file.size() < begin) refuse(file, "is shorter than a header");
  const std::array<std::span<std::byte>, 2> head = {std::as_writable_bytes(std::span(&header, 1)),
                                                    std::as_writable_bytes(std::span(sizes))};
  file.read_at(0, head);
  if (header.magic != kStateMagic) refuse(file, "is not a file of the cache");
  if (header.version != kStateFileVersion) {
    refuse(file, files::concat("has version ", header.version, " of the format, this program reads version ",
                               kStateFileVersion));
  }
  if (header.key != key) refuse(file, "has the state of another text");
  const std::span<const std::uint32_t> fp16_bytes = std::span(sizes).first(layers);
  if (header.layers != layers || (kind.page && !like.cache().allows_page(fp16_bytes))) {
    refuse(file, "has pages of another layout");
  }
  if (header.payload != payload_bytes(like, kind, fp16_bytes) || file.size() != begin + header.payload) {
    refuse(file, files::concat("has ", file.size(), " bytes: a part is missing, or does not belong to it"));
  }
  StatePart part;
  if (kind.page) part.page = like.cache().make_page(fp16_bytes);
  if (kind.mixers) part.mixers = like.mixers();
  const std::vector<std::span<std::byte>> payload = payload_of(part);
  file.read_at(begin, payload);
  std::vector<std::span<const std::byte>> hashed = {std::as_bytes(std::span(sizes))};
  hashed.insert(hashed.end(), payload.begin(), payload.end());
  if (hash_of(header, hashed) != header.hash) refuse(file, "is damaged: its hash is wrong");
  if (kind.page && !like.cache().is_consistent(part.page)) refuse(file, "refers to F16 rows that it does not have");
  return part;
}

}  // namespace ballast::model
