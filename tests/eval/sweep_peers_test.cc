#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ballast/sweep.h"
#include "error_message.h"
#include "temporary_directory.h"

namespace ballast {
namespace {

using test::Contains;

std::vector<SweepPeer> read(const std::string& csv) {
  const test::TemporaryDirectory directory;
  return read_peers(test::write_file(directory / "peers.csv", csv));
}

std::string refusal(const std::string& csv) {
  return test::error_message([&] { read(csv); });
}

TEST_CASE("the columns of peers may have any order, and unknown columns are ignored") {
  const auto peers = read(
      "program,kl,note,file_mb,name,tg128,pp512\n"
      "llama.cpp,0.056,\"an \"\"importance\"\" matrix, too\",105.5,Q4_K_M,156,728\n"
      "\n"
      "OpenVINO,0.193,,90,\"INT4, g32\",,\r\n");
  REQUIRE(peers.size() == 2);
  CHECK(peers[0].program == "llama.cpp");
  CHECK(peers[0].name == "Q4_K_M");
  CHECK(peers[0].file_mb == 105.5);
  CHECK(peers[0].kl == 0.056);
  CHECK(peers[0].speeds == std::map<std::string, double>{{"pp512", 728}, {"tg128", 156}});
  CHECK(peers[1].name == "INT4, g32");
  CHECK(peers[1].speeds.empty());
}

TEST_CASE("the program may be missing, and so may the last line break") {
  const auto peers = read("name,file_mb,kl\nQ8_0,145,0.0047");
  REQUIRE(peers.size() == 1);
  CHECK(peers[0].program == "others");
  CHECK(read("name,file_mb,kl\n").empty());
}

TEST_CASE("a peer may be the original itself") {
  CHECK(read("name,file_mb,kl\nF16,270,0\n").at(0).kl == 0);
  CHECK(refusal("name,file_mb,kl\nF16,270,-1\n") == Contains("line 2: kl must be a number not below 0, is '-1'"));
}

TEST_CASE("a failed recipe of a sweep is not used as a peer") {
  const auto peers = read("name,file_mb,kl,error\nw8a8,145,0.0047,\nw4a16,,,does not fit\n");
  REQUIRE(peers.size() == 1);
  CHECK(peers[0].name == "w8a8");
}

TEST_CASE("an error in a file of peers names the line") {
  CHECK(refusal("") == Contains("is empty"));
  CHECK(refusal("\n\n") == Contains("its first line must name the columns"));
  CHECK(refusal("name,kl\nQ8_0,1\n") == Contains("peers.csv: line 1: names no column 'file_mb'"));
  CHECK(refusal("name,file_mb,kl,kl\n") == Contains("line 1: names a column twice"));
  CHECK(refusal("name,file_mb,kl\nQ8_0,145\n") == Contains("line 2: has 2 cells, the first line names 3 columns"));
  CHECK(refusal("name,file_mb,kl\n\nQ8_0,145,small\n") ==
        Contains("line 3: kl must be a number not below 0, is 'small'"));
  CHECK(refusal("name,file_mb,kl\nQ8_0,145,\n") == Contains("line 2: kl must be a number not below 0, is ''"));
  CHECK(refusal("name,file_mb,kl\nQ8_0,nan,1\n") == Contains("line 2: file_mb must be a number"));
  CHECK(refusal("name,file_mb,kl\nQ8_0,-1,1\n") == Contains("line 2: file_mb must be a number above 0"));
  CHECK(refusal("name,file_mb,kl\n,145,1\n") == Contains("line 2: name is empty"));
  CHECK(refusal("name,file_mb,kl\n\"Q8_0,145,1\n") == Contains("line 2: a quote is not closed"));
  CHECK(refusal("name,file_mb,kl\n\"Q8\"_0,145,1\n") == Contains("line 2: has text after a cell in quotes"));
}

}  // namespace
}  // namespace ballast
