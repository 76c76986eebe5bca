// Loads the models of a server from their files.
#ifndef BALLAST_SERVE_MODEL_FILES_H_
#define BALLAST_SERVE_MODEL_FILES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "ballast/serve.h"
#include "serve/scheduler/disk_cache.h"
#include "serve/scheduler/engine_loop.h"
#include "serve/service/model_registry.h"

namespace ballast::serve {

/// Returns the model's names, and what is known about it without opening its files.
RegisteredModel registered_model(const ServedModel& model);

/// Throws Error if a file of the model does not exist, or for too many draft tokens: otherwise such mistakes would be
/// noticed only when a request asks for the model.
void check_served(const ServedModel& model);

/// Gives the schedulers of loaded models to an engine loop.
class ModelFiles : public ModelLoader {
 public:
  enum class Loading {
    kOnThisThread,
    kInBackground,  ///< on a thread of its own with a lower priority, whose pool of threads ends with it
  };

  /// Returns a prefix cache on disk for one more model; null: none.
  using MakeDiskCache = std::function<std::shared_ptr<DiskCache>()>;

  /// The references must outlive this object and the loaded models. `cache_bytes`: of a model without its own; 0: half
  /// of the memory that is available after the model was loaded.
  ModelFiles(const std::vector<ServedModel>& models, const ServeOptions& options, std::uint64_t cache_bytes,
             MakeDiskCache make_disk_cache, EngineLoop& loop, Loading loading)
      : models_(models),
        options_(options),
        cache_bytes_(cache_bytes),
        make_disk_cache_(std::move(make_disk_cache)),
        loop_(loop),
        loading_(loading) {}

  ModelMemory estimate(std::size_t model) override;
  std::unique_ptr<ResidentModel> load(std::size_t model) override;
  ModelDescription describe(std::size_t model) const override;

 private:
  std::uint64_t cache_bytes_of(const ServedModel& model) const;
  std::unique_ptr<ResidentModel> load_here(const ServedModel& model) const;

  const std::vector<ServedModel>& models_;
  const ServeOptions& options_;
  std::uint64_t cache_bytes_;
  MakeDiskCache make_disk_cache_;
  EngineLoop& loop_;
  Loading loading_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_MODEL_FILES_H_
