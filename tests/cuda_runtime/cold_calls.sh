#!/usr/bin/env bash
# Each of CUDA's functions fails once, in each of its first calls in a process.
# usage: cold_calls.sh PROGRAM
set -u
failed=0
for function in cudaGetDevice cudaSetDevice cudaGetDeviceProperties cudaMalloc cudaHostAlloc cudaMemcpyAsync \
  cudaMemsetAsync cudaLaunchKernel cudaStreamSynchronize cudaStreamWaitEvent cudaStreamCreateWithFlags \
  cudaStreamBeginCapture cudaStreamEndCapture cudaGraphInstantiate cudaGraphLaunch cudaEventCreateWithFlags \
  cudaEventRecord cudaEventSynchronize; do
  for before in 0 1 2 3 5 8; do
    if ! words=$(WEFT_TEST_CUDA_FAIL=$function:999:$before:once "$1" --gtest_filter='CudaColdCalls.*' 2>&1); then
      echo "$function, call $before: $words"
      failed=1
    fi
  done
done
exit $failed
