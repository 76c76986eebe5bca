#include "tools/program.h"

int main(int argc, char** argv) {
  return ballast::tools::run_program(argc, argv);
}
