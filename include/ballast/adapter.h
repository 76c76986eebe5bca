// Adapters: what a fine-tuning adds to a model (LoRA, arXiv:2106.09685), kept beside it.
#ifndef BALLAST_ADAPTER_H_
#define BALLAST_ADAPTER_H_

#include <filesystem>
#include <memory>

namespace ballast {

namespace model {
struct Adapter;
}

/// An adapter for one loaded model, from Model::load_adapter. Copies are the same adapter; null: none.
using Adapter = std::shared_ptr<const model::Adapter>;

/// The files of an adapter: a folder as PEFT writes LoRA, or a GGUF.
struct AdapterFiles {
  std::filesystem::path path;
  double scale = 1;  ///< multiplies what it adds
};

}  // namespace ballast

#endif  // BALLAST_ADAPTER_H_
