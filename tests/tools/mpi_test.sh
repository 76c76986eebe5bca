#!/bin/sh
# Jobs under mpirun: the same results for any number of ranks, one line for a failure, and no rank left behind.
# usage: mpi_test.sh MPIRUN PROGRAM MODEL
set -u
mpirun=$1 program=$2 model=$3
tools=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export OMP_NUM_THREADS=1

fail() {
  echo "FAILED: $*" >&2
  sed 's/^/    /' err >&2
  failures=$((failures + 1))
}

# A container has no agent that starts ranks, and may have fewer cores than ranks; root must confirm its intention.
# MPI's modules keep memory to the end and are unloaded before leaks are searched, so that no list can except them by
# name; the same jobs on one rank, here and in other tests, find leaks of ballast.
ranks() {
  count=$1
  shift
  ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0" \
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent='' OMPI_MCA_rmaps_base_oversubscribe=1 \
    PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none \
    OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1 \
    timeout 300 "$mpirun" -n "$count" "$program" "$@" >out 2>err </dev/null
}

"$program" calibrate "$model" -o one.stats --samples 16 --length 8 >out 2>err || fail "calibrate"
for count in 2 3 4 8; do
  ranks $count calibrate "$model" -o "$count.stats" --samples 16 --length 8 || fail "$count ranks"
  cmp one.stats "$count.stats" || fail "$count ranks give other statistics"
  [ "$(grep -c '^measured ' out)" -eq 1 ] || fail "$count ranks print more than once"
done
[ "$(find . -name '.*.resume*' | wc -l)" -eq 0 ] || fail "saved progress is left behind"

# Conversions with chosen formats give the same bytes.
size=$("$program" inspect "$model" --json | sed 's/.*"file_bytes":\([0-9]*\).*/\1/')
for flags in "--scheme w4a8" "--scheme w4a16 --target-size $((size * 3 / 5))" "--scheme w4a8 --target-size $((size * 3 / 5))"; do
  rm -rf conv-*
  for count in 1 2 4; do
    ranks $count convert "$model" -o conv-$count $flags --stats one.stats --samples 16 --deterministic ||
      fail "convert $flags on $count ranks"
    cmp conv-1/model.safetensors conv-$count/model.safetensors || fail "$count ranks convert ($flags) to other bytes"
  done
done
ranks 2 convert "$model" -o conv-any --scheme w4a8 --stats one.stats --samples 16 || fail "convert in any order"
ranks 2 convert "$model" -o conv-few --stats one.stats --samples 3 && fail "too few samples to convert with pass"
[ "$(grep -c '^ballast: samples: 3 are too few' err)" -eq 1 ] || fail "too few samples are not told once"
[ "$(find . -name '.conv*' | wc -l)" -eq 0 ] || fail "a conversion leaves saved progress behind"

# Evaluations and sweeps give the same figures. With more ranks than chunks, one has nothing to do.
python3 - "$(basename "$model")" <<END || exit 1
import pathlib, sys
sys.path.insert(0, "$tools")
from golden import fixtures
fixtures.copy_model(sys.argv[1], pathlib.Path("readable"))
pathlib.Path("text.txt").write_text(fixtures.text(400, 1))
END
figures() {
  sed 's/"seconds":[^,}]*,//' out
}
ranks 1 convert readable -o small --scheme w4a8 --samples 8 --text text.txt || fail "convert"
for count in 1 2 3 5; do
  ranks $count eval small --reference readable --text text.txt --context 32 --chunks 4 --per-position --worst 3 --json ||
    fail "eval on $count ranks"
  figures >eval-$count
  cmp eval-1 eval-$count || fail "$count ranks evaluate to other figures"
  ranks $count sweep readable --text text.txt --context 32 --chunks 5 --schemes w8a8,w4a8,w4a8@2kB,bf16 --no-bench \
    --preset fast --calibration-text text.txt -o sweep-$count --json && fail "a recipe that fails passes on $count ranks"
  [ "$(grep -c '^ballast: w4a8@2kB failed: target size: ' err)" -eq 1 ] || fail "$count ranks do not tell once what failed"
  cmp sweep-1/results.json sweep-$count/results.json || fail "$count ranks sweep to other figures"
done
ranks 2 eval small --text text.txt --stream 64 && fail "a stream on two ranks passes"
[ "$(grep -c '^ballast: ranks share the chunks of a text' err)" -eq 1 ] || fail "a stream on two ranks is not refused once"

ranks 2 calibrate "$model" -o few.stats --samples 3 --length 8 && fail "too few samples to share pass"
[ "$(grep -c '^ballast: samples: 3 are too few' err)" -eq 1 ] || fail "too few samples are not told once"
ranks 2 calibrate missing-model -o no.stats && fail "a missing model passes"
[ "$(grep -c '^ballast: missing-model: ' err)" -eq 1 ] || fail "a missing model is not told once"
ranks 2 inspect "$model"
[ $? -eq 2 ] || fail "inspect under mpirun is not wrong usage"
[ "$(grep -c '^ballast: inspect runs as one process' err)" -eq 1 ] || fail "inspect under mpirun is not told once"

# After a kill in the middle all ranks resume together. Each prints its process id first.
ranks 2 calibrate "$model" -o two.stats --samples 64 --length 64 || fail "2 ranks"
cat >telling <<END
#!/bin/sh
echo \$\$ >>"$work/processes"
exec "$program" "\$@"
END
chmod +x telling
plain=$program
program=$work/telling
for delay in 0.3 0.6 1; do
  : >processes
  ranks 2 calibrate "$model" -o killed.stats --samples 64 --length 64 --force &
  sleep $delay
  xargs -r kill -9 <processes 2>/dev/null
  wait
done
program=$plain
ranks 2 calibrate "$model" -o killed.stats --samples 64 --length 64 --force || fail "the last of 2 ranks"
cmp two.stats killed.stats || fail "going on gives other statistics"
exit $((failures > 0))
