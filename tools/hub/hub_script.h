// The Python program that fetches from the Hub.
#ifndef BALLAST_TOOLS_HUB_HUB_SCRIPT_H_
#define BALLAST_TOOLS_HUB_HUB_SCRIPT_H_

namespace ballast::tools {

/// Returns python/ballast/_hub.py.
const char* hub_script();

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_HUB_HUB_SCRIPT_H_
