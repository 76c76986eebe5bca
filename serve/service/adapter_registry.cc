#include "serve/service/adapter_registry.h"

#include <algorithm>
#include <utility>

#include "ballast/error.h"
#include "files/text.h"
#include "serve/api/api_error.h"

namespace ballast::serve {

void AdapterRegistry::check_free(std::string_view name) const {
  if (name.empty()) throw Error("adapter", "has no name");
  if (find(name) != nullptr) throw Error("adapter", files::concat("the name '", name, "' is taken"));
}

void AdapterRegistry::add(const model::Model& model, const std::string& name, const AdapterFiles& files) {
  check_free(name);
  auto added = std::make_shared<const ServedAdapter>(name, files, model.load_adapter(files));
  const std::lock_guard adding(adding_);
  check_free(name);  // it may have been taken while the files were read
  const std::lock_guard lock(mutex_);
  adapters_.push_back(std::move(added));
}

void AdapterRegistry::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(adapters_, [&](const ServedAdapterPtr& other) { return other->name == name; });
  if (found == adapters_.end()) {
    throw ApiError(404, files::concat("there is no adapter '", name, "'"), "lora_name").with_code("adapter_not_found");
  }
  adapters_.erase(found);
}

ServedAdapterPtr AdapterRegistry::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(adapters_, [&](const ServedAdapterPtr& other) { return other->name == name; });
  return found == adapters_.end() ? nullptr : *found;
}

std::vector<ServedAdapterPtr> AdapterRegistry::all() const {
  const std::lock_guard lock(mutex_);
  return adapters_;
}

ServedAdapterPtr AdapterRegistry::chosen(const RequestFields& fields) const {
  const std::vector<ServedAdapterPtr> adapters = all();
  ServedAdapterPtr chosen;
  fields.read("lora", [&](const files::JsonReader& list) {
    for (const files::JsonReader& entry : list.elements()) {
      const std::size_t id = entry.count("id");
      const double scale = entry.number("scale", 1);
      if (id >= adapters.size()) entry.fail("id", std::to_string(id) + " is none of the server's adapters");
      if (scale == 0) continue;
      if (scale != 1) entry.fail("scale", "must be 1 or 0: other scales are given with the adapter's files");
      if (chosen != nullptr) list.fail("a text has one adapter");
      chosen = adapters[id];
    }
    return true;
  });
  return chosen;
}

nlohmann::ordered_json AdapterRegistry::list_json() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ServedAdapterPtr& adapter : all()) {
    list.push_back({{"id", list.size()},
                    {"name", adapter->name},
                    {"path", adapter->files.path.string()},
                    {"scale", adapter->files.scale}});
  }
  return list;
}

}  // namespace ballast::serve
