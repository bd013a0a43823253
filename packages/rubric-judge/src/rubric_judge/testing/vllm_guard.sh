# Starts vLLM in the Python that is named first, with the options behind it. The server and all of its
# processes end with this one's standard input, so with whoever started it, whichever way that ends; and
# this one ends with the server.
export DO_NOT_TRACK=1 HF_HUB_OFFLINE=1 OMP_NUM_THREADS=2 TRANSFORMERS_OFFLINE=1
export VLLM_CPU_KVCACHE_SPACE=1 VLLM_NO_USAGE_STATS=1 # 1 GiB
export VLLM_SERVER_DEV_MODE=1 # /reset_prefix_cache
python="$1"
shift
# Only guidance keeps to a string's `maxLength`, and only without free white space does every reply
# end; what is cached is reported only when asked for. The `vllm` command asks for the version of a
# package called vllm, which vllm-cpu is not.
set -- "$python" -m vllm.entrypoints.openai.api_server --enforce-eager --enable-prompt-tokens-details \
  --structured-outputs-config '{"backend": "guidance", "disable_any_whitespace": true}' "$@"
trap : TERM
(trap : TERM; "$@" < /dev/null; kill -s KILL -- -$$) &
cat > /dev/null
kill -s TERM -- -$$
sleep 20
kill -s KILL -- -$$
