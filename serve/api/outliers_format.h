// The results of a calibration, for the server's page.
#ifndef BALLAST_SERVE_API_OUTLIERS_FORMAT_H_
#define BALLAST_SERVE_API_OUTLIERS_FORMAT_H_

#include <nlohmann/json.hpp>

#include "ballast/statistics.h"
#include "engine/loaded_model.h"

namespace ballast::serve {

/// Returns {"massive_channels": [{layer, channel, magnitude, median}], "massive_tokens": [{id, text}]}. The tokens are
/// those that an INT8 cache keeps in 16 bits; the first token of any text has neither id nor text. Throws Error naming
/// `context` if the statistics are of another model.
nlohmann::ordered_json outliers_json(const Statistics& statistics, const engine::LoadedModel& loaded,
                                     const std::string& context);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_OUTLIERS_FORMAT_H_
