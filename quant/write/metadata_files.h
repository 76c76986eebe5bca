// What a converted model consists of besides its tensors.
#ifndef BALLAST_QUANT_WRITE_METADATA_FILES_H_
#define BALLAST_QUANT_WRITE_METADATA_FILES_H_

#include <filesystem>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/spec.h"
#include "ballast/statistics.h"
#include "model/source/model_source.h"
#include "quant/write/block_writer.h"

namespace ballast::quant {

/// What is told of a conversion in its output.
struct ConvertedModel {
  const model::ModelSource& source;
  const ModelSpec& spec;  ///< behind all passes
  const Recipe& recipe;
  const std::vector<int>& prefix;  ///< in front of every sequence
  const Statistics* statistics = nullptr;
  const StoredReport& stored;
};

/// Writes config.json, recipe.json and the tokenizer's files. Throws Error.
void write_metadata_files(const ConvertedModel& model, const std::filesystem::path& directory);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_WRITE_METADATA_FILES_H_
