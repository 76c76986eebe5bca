#include "quant/conversion/model_output.h"

#include "ballast/error.h"

namespace ballast::quant {

void check_replaceable(const ModelFormat& format, const std::filesystem::path& output, bool replace) {
  if (!replace || !std::filesystem::exists(output)) return;
  if (!format.file_name().empty()) {
    if (std::filesystem::is_regular_file(output)) return;
    throw Error(output.string(), "is no file: it is not replaced, choose another name");
  }
  if (std::filesystem::is_directory(output) &&
      (std::filesystem::is_empty(output) || std::filesystem::exists(output / "recipe.json"))) {
    return;
  }
  throw Error(output.string(), "is not a model that ballast wrote: it is not replaced, choose another name");
}

void ModelOutput::commit() {
  if (format_.file_name().empty()) {
    directory_.commit();
  } else {
    directory_.commit_file(format_.file_name());
  }
}

}  // namespace ballast::quant
