// The adapters of a server's model, by their names in requests.
#ifndef BALLAST_SERVE_SERVICE_ADAPTER_REGISTRY_H_
#define BALLAST_SERVE_SERVICE_ADAPTER_REGISTRY_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/adapter.h"
#include "model/model.h"
#include "serve/api/request_fields.h"

namespace ballast::serve {

/// An adapter that requests can name.
struct ServedAdapter {
  std::string name;
  AdapterFiles files;
  Adapter adapter;
};
using ServedAdapterPtr = std::shared_ptr<const ServedAdapter>;

/// Any thread. A request keeps its adapter, also when it is removed meanwhile.
class AdapterRegistry {
 public:
  /// Loads an adapter. Throws Error for wrong files, and for a name that another one has.
  void add(const model::Model& model, const std::string& name, const AdapterFiles& files);

  /// Throws ApiError (404) for an unknown name.
  void remove(const std::string& name);

  /// Returns the adapter of that name; null if there is none.
  ServedAdapterPtr find(std::string_view name) const;

  std::vector<ServedAdapterPtr> all() const;

  /// Returns the adapter that the field `lora` of llama-server's API chooses, [{"id": 0, "scale": 1}]; null: none.
  /// Throws ApiError for more than one.
  ServedAdapterPtr chosen(const RequestFields& fields) const;

  /// Returns llama-server's list of adapters.
  nlohmann::ordered_json list_json() const;

 private:
  void check_free(std::string_view name) const;

  std::mutex adding_;
  mutable std::mutex mutex_;
  std::vector<ServedAdapterPtr> adapters_;  ///< their index is the id
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_ADAPTER_REGISTRY_H_
