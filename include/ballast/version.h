// Which ballast this is, and what it has.
#ifndef BALLAST_VERSION_H_
#define BALLAST_VERSION_H_

#include <string>
#include <string_view>
#include <vector>

namespace ballast {

/// "0.1.0": of the library, which is that of the headers beside it.
std::string_view version();

/// What builds and machines differ in.
struct Features {
  std::vector<std::string> simd_targets;  ///< that kernels are compiled for, the best first; simd_targets() runs here
  bool onednn = false;                    ///< built in, and its library is found
  bool mpi = false;                       ///< libballast_mpi.so is where the program looks for it
};

/// Loads oneDNN, where there is one.
Features features();

}  // namespace ballast

#endif  // BALLAST_VERSION_H_
