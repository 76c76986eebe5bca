// The version and features of this build.
#ifndef BALLAST_VERSION_H_
#define BALLAST_VERSION_H_

#include <string>
#include <string_view>
#include <vector>

namespace ballast {

/// Returns the library's version, "0.1.0".
std::string_view version();

/// Properties in which builds and machines differ.
struct Features {
  std::vector<std::string>
      simd_targets;  ///< targets that kernels are compiled for, the best first; simd_targets() has those that run here
  bool onednn = false;  ///< built in, and its library was found
  bool mpi = false;     ///< libballast_mpi.so was found
};

/// Loads oneDNN, if available.
Features features();

}  // namespace ballast

#endif  // BALLAST_VERSION_H_
