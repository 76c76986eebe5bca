// The state of one sequence in the layers of a model.
#ifndef BALLAST_MODEL_MIXER_SEQUENCE_STATE_H_
#define BALLAST_MODEL_MIXER_SEQUENCE_STATE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ballast/spec.h"
#include "model/block/adapter.h"
#include "model/cache/key_value_cache.h"
#include "model/mixer/encoded_source.h"

namespace ballast::model {

/// A mixer's state of a sequence in one layer, other than keys and values. Its forward pass changes it token by token,
/// and no token can be removed.
class MixerState {
 public:
  MixerState() = default;
  MixerState(const MixerState&) = default;
  MixerState& operator=(const MixerState&) = default;
  virtual ~MixerState() = default;

  virtual std::unique_ptr<MixerState> clone() const = 0;
  virtual std::size_t memory_bytes() const = 0;

  /// Returns all values of the state, which are its whole content, for files.
  virtual std::vector<std::span<float>> values() = 0;
};

/// The states of some layers' mixers; null where a mixer has none. Copied by value.
class MixerStates {
 public:
  MixerStates() = default;
  MixerStates(const MixerStates& other);
  MixerStates& operator=(const MixerStates& other);
  MixerStates(MixerStates&&) = default;
  MixerStates& operator=(MixerStates&&) = default;
  ~MixerStates() = default;

  /// Takes the values of other states of the same layers, in the memory that it has.
  void copy_values(MixerStates& other);

  void add(std::unique_ptr<MixerState> state) { states_.push_back(std::move(state)); }

  MixerState* at(std::size_t index) { return states_[index].get(); }

  /// Returns whether no layer has such a state.
  bool empty() const;
  std::size_t memory_bytes() const;

  /// Returns the values of all states, layer by layer.
  std::vector<std::span<float>> values();

 private:
  std::vector<std::unique_ptr<MixerState>> states_;
};

/// Returns the layer whose keys and values a layer reads: usually itself.
inline std::size_t cache_layer(const ModelSpec& spec, std::size_t layer) {
  const AttentionSpec* attention = spec.layers[layer].attention();
  return attention == nullptr ? layer : attention->keys_of.value_or(layer);
}

/// The state of one sequence: keys and values of the layers that attend, and the states of the others. Copied by value.
/// Not thread-safe.
class SequenceState {
 public:
  /// The layers that a state is for: those that run over a text, or the encoder's, which run over its source text.
  enum class Layers { kOfText, kOfEncoder };

  /// Creates the states of all these layers of a model.
  SequenceState(const ModelSpec& spec, const KeyValueCacheOptions& options, Layers layers = Layers::kOfText);

  /// Creates the state of one layer, for passes that run layer after layer (calibration): its index here is 0. Its
  /// cache is the one that the layer reads: see SharedKeys if that belongs to another layer.
  SequenceState(const ModelSpec& spec, std::size_t layer, const KeyValueCacheOptions& options);

  KeyValueCache& cache() { return cache_; }
  const KeyValueCache& cache() const { return cache_; }

  /// Returns what an encoder made of the sequence's source text; null if there is none. Copies share it.
  EncodedSource* source() const { return source_.get(); }
  void set_source(std::shared_ptr<EncodedSource> source) { source_ = std::move(source); }

  /// Returns the adapter that the sequence runs with; null if it has none. Copies share it. It is set before the first
  /// token runs, since keys and values depend on it.
  const Adapter* adapter() const { return adapter_.get(); }

  /// Returns what the adapter adds to the head; null: nothing.
  const AdapterPart* head_adapter() const {
    return adapter_ == nullptr || adapter_->head.empty() ? nullptr : &adapter_->head;
  }
  void set_adapter(std::shared_ptr<const Adapter> adapter) { adapter_ = std::move(adapter); }

  /// Returns the state of a layer's mixer; null if it has none.
  MixerState* mixer(std::size_t layer) { return mixers_.at(layer); }

  /// Returns the states of all mixers.
  const MixerStates& mixers() const { return mixers_; }

  /// Replaces the states of all mixers by those after the current tokens.
  void set_mixers(MixerStates mixers) {
    mixers_ = std::move(mixers);
    invalid_ = false;
  }

  /// See KeyValueCache::adopt_page(). set_mixers() must follow if there are mixers with a state.
  void adopt(std::size_t page, std::vector<StoredPage> pages, std::size_t length) {
    cache_.adopt_page(page, std::move(pages), length);
  }

  /// Adds `count` tokens, which all layers have processed, to the sequence.
  void advance(std::size_t count) { cache_.advance(count); }

  /// Must be called when a pass ended with an error. The next pass overwrites the keys and values of its tokens, but
  /// mixers' states cannot be restored: the sequence must begin again, or continue from a snapshot.
  void invalidate() { invalid_ = !mixers_.empty(); }
  bool invalid() const { return invalid_; }

  /// Makes the current tokens the prefix, see KeyValueCache::hold_prefix.
  void hold_prefix();

  std::size_t length() const { return cache_.length(); }
  std::size_t position() const { return cache_.position(); }

  /// Returns whether no layer has a state besides keys and values: the sequence can then be truncated wherever its
  /// cache can.
  bool has_no_recurrent_state() const { return mixers_.empty(); }

  /// Returns whether the sequence can be truncated. Mixers with a state support only length 0 and the current length:
  /// otherwise restore a snapshot, or run the tokens again.
  bool can_truncate_to(std::size_t length) const;
  void truncate(std::size_t length);

  /// The mixers' states at one length, with which the sequence can return to it after more tokens.
  struct Snapshot {
    std::size_t length = 0;
    MixerStates mixers;
  };
  Snapshot snapshot() const { return {.length = length(), .mixers = mixers_}; }

  /// Renews a snapshot of this sequence, or a default one, without allocating memory the second time.
  void renew(Snapshot& snapshot);

  /// Returns whether the cache still holds all tokens visible at the snapshot's length. The snapshot is one of this
  /// sequence, or of one with the same tokens up to it.
  bool can_restore(const Snapshot& snapshot) const { return cache_.can_truncate_to(snapshot.length); }
  void restore(const Snapshot& snapshot);

  /// Restores the snapshot, whose states are then those that the sequence had.
  void exchange(Snapshot& snapshot);

  /// Copies count their source text each.
  std::size_t memory_bytes() const {
    return cache_.memory_bytes() + mixers_.memory_bytes() + (source_ == nullptr ? 0 : source_->memory_bytes());
  }
  /// Returns the part of these bytes that every copy owns, independent of the sequence's length.
  std::size_t mixer_bytes() const { return mixers_.memory_bytes(); }
  /// Returns the bytes that one new token reads.
  std::size_t bytes_in_use() const { return cache_.bytes_in_use() + mixers_.memory_bytes(); }

 private:
  KeyValueCache cache_;
  MixerStates mixers_;
  std::shared_ptr<const Adapter> adapter_;
  std::shared_ptr<EncodedSource> source_;
  std::shared_ptr<const MixerStates> beginning_;  ///< after the prefix; copies share it
  bool invalid_ = false;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_MIXER_SEQUENCE_STATE_H_
