#include "ballast/ranks.h"

#include <dlfcn.h>

#include <cassert>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "ballast/error.h"
#include "jobs/mpi/module.h"
#include "jobs/single_rank.h"

namespace ballast {

namespace {

namespace fs = std::filesystem;

std::size_t number_in(const char* variable) {
  const char* text = std::getenv(variable);
  std::size_t number = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), number);
  return number;
}

// Variables of Open MPI, of MPICH and its derivatives, and of Slurm's srun, which uses PMIx.
std::size_t stated_by_launcher() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (const std::size_t size = number_in(variable); size > 0) return size;
  }
  return std::getenv("PMIX_RANK") != nullptr ? number_in("SLURM_NTASKS") : 0;
}

// Looks next to the program and in the installation's folder for modules; empty if not found.
fs::path find_module() {
  std::error_code ignored;
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& place : {folder / jobs::kMpiModule, folder / BALLAST_MODULES / jobs::kMpiModule}) {
    if (fs::exists(place, ignored)) return place;
  }
  return {};
}

void* load_module() {
  for (const fs::path& candidate : {find_module(), fs::path(jobs::kMpiModule)}) {  // or on the system's search path
    if (candidate.empty()) continue;
    // Open MPI loads plug-ins, which need its symbols to be global.
    if (void* module = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_GLOBAL); module != nullptr) return module;
  }
  const char* reason = ::dlerror();
  throw Error(jobs::kMpiModule, std::string("cannot be loaded, which runs under mpirun need (") +
                                    (reason == nullptr ? "not found" : reason) +
                                    "): build ballast where MPI is installed, see scripts/setup.sh");
}

}  // namespace

namespace jobs {

bool mpi_module_is_here() {
  return !find_module().empty();
}

void SingleRank::send(std::span<const std::byte> /*bytes*/, std::size_t /*to*/) {
  assert(!"a single rank has no other rank");
}

void SingleRank::receive(std::span<std::byte> /*bytes*/, std::size_t /*from*/) {
  assert(!"a single rank has no other rank");
}

void SingleRank::end_all(int exit_code) {
  std::_Exit(exit_code);
}

}  // namespace jobs

Ranks& single_rank() {
  static jobs::SingleRank rank;
  return rank;
}

std::size_t launched_ranks() {
  const std::size_t stated = stated_by_launcher();
  return stated == 0 ? 1 : stated;
}

std::size_t launched_ranks_here() {
  for (const char* variable : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
    if (const std::size_t size = number_in(variable); size > 0) return size;
  }
  return 1;
}

std::size_t launched_rank() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}) {
    if (std::getenv(variable) != nullptr) return number_in(variable);
  }
  return 0;
}

std::unique_ptr<Ranks> open_ranks() {
  if (launched_ranks() == 1) return std::make_unique<jobs::SingleRank>();
  const auto open = reinterpret_cast<jobs::OpenMpiRanks>(::dlsym(load_module(), jobs::kOpenMpiRanks));
  std::unique_ptr<Ranks> ranks(open == nullptr ? nullptr : open(BALLAST_VERSION));
  if (ranks == nullptr) {
    throw Error(jobs::kMpiModule, "belongs to another version of ballast than this program, " BALLAST_VERSION);
  }
  return ranks;
}

}  // namespace ballast
