// Writes texts from source texts with an encoder and a decoder, many at once.
#ifndef BALLAST_ENGINE_TRANSLATOR_H_
#define BALLAST_ENGINE_TRANSLATOR_H_

#include <span>
#include <string>
#include <vector>

#include "ballast/progress.h"
#include "ballast/translate.h"
#include "engine/loaded_model.h"

namespace ballast::engine {

/// Implements Model::translate. The steps of several calls, and of other sequences, run as one batch. An exception of
/// `progress`, which is called after each step, ends the work.
std::vector<Translation> translate(const LoadedModel& model, std::span<const std::vector<int>> sources,
                                   const TranslateOptions& options, const Progress& progress);
std::vector<Translation> translate_texts(const LoadedModel& model, std::span<const std::string> texts,
                                         const TranslateOptions& options, const Progress& progress);

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_TRANSLATOR_H_
