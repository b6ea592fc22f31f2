#!/usr/bin/env bash
# Processes of which one goes wrong end within seconds, with words that name it.
# usage: faults.sh MPIRUN PROGRAM FAULT
set -euo pipefail
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
start=(timeout -k 5 60 "$1" --oversubscribe -n 3)
program=$2 fault=$3
words=()
case $fault in
  throws) words=('sees: [all_reduce] rank 1 failed' 'the disk is full' 'faults.cpp:') ;;
  ends) words=('sees: [all_reduce] rank 1 has ended its program' 'faults.cpp:') ;;
  killed) words=('rank 1' 'signal 9') ;;
  killed_alone)  # mpirun ends the others only if it is not told to leave them
    fault=killed start+=(--enable-recovery)
    words=('sees: [all_reduce_] rank 1 (process' 'has died' 'faults.cpp:') ;;
  late)
    export WEFT_DISTRIBUTED_TIMEOUT=0.5
    words=('rank 0 sees: [all_reduce] rank 1 did not arrive in time' 'faults.cpp:') ;;
  differs)
    export WEFT_CHECK_COLLECTIVES=1
    words=('all_reduce of float32 [1000] by sum' 'all_reduce of float64 [1000] by sum' 'rank 1 is at' 'faults.cpp:') ;;
  differs_unchecked)
    fault=differs
    words=('sees: [all_reduce] rank' 'bytes' 'WEFT_CHECK_COLLECTIVES=1') ;;
  order)
    export WEFT_CHECK_COLLECTIVES=1
    words=('calls barrier, but rank 1 calls all_gather of float32 [*]' 'rank 1 is at') ;;
  message) words=('[receive_] tensor from rank 0: expected float32 [2, 3], got float32 [3, 2]' 'rank 1 failed') ;;
  again)
    export WEFT_DISTRIBUTED_TIMEOUT=0.3
    words=('[receive] rank' 'did not arrive in time' 'sees: [all_reduce] rank') ;;
  saving)
    WEFT_TEST_FOLDER=$(mktemp -d)
    export WEFT_TEST_FOLDER
    trap 'rm -rf "$WEFT_TEST_FOLDER"' EXIT
    words=('rank 1' 'signal 9') ;;
  pipeline) words=('sees: [receive] rank 1 failed' 'the third micro-batch' 'faults.cpp:') ;;
esac
code=0
output=$("${start[@]}" "$program" "$fault" 2>&1) || code=$?
((SECONDS < 50)) || { echo "it hung: $output"; exit 1; }
((code != 0)) || [[ ${3} == killed_alone ]] || { echo "it ended well: $output"; exit 1; }
for word in "${words[@]}"; do
  [[ $output == *"$word"* ]] || { echo "'$word' is not said in: $output"; exit 1; }
done
# What was complete before a process was killed in a save is there.
[[ ${3} != saving ]] || "$program" saved
