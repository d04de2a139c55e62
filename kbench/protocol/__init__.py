"""Every message between kbench and its worker process: a frozen dataclass each, and their encoding as lines of JSON.

The parent sends requests (`requests.py`). The worker answers each with any number of events (`events.py`) or with a
catalog (`catalog.py`), and then with `RequestDone`.
"""

from kbench.protocol.catalog import (
    AcceleratorInfo,
    Catalog,
    DeviceInfo,
    MachineInfo,
    OperatorInfo,
    PluginError,
    ProviderInfo,
    SourceSweep,
)
from kbench.protocol.encoding import (
    LINE_LIMIT,
    Message,
    ProtocolError,
    Request,
    as_decoded,
    decode,
    decode_request,
    encode,
)
from kbench.protocol.events import (
    NO_INDEX,
    RANDOM,
    RECORD,
    CallRecorded,
    DeviceFailed,
    EdgeResult,
    RequestDone,
    RoundTimed,
    Rows,
    Sampling,
    StepBegun,
    StepEnded,
    TrialFailed,
)
from kbench.protocol.requests import (
    CatalogRequest,
    CheckRequest,
    Configuration,
    MeasureRequest,
    MeasureSettings,
    Source,
    TrialRequest,
)

__all__ = [
    "LINE_LIMIT",
    "NO_INDEX",
    "RANDOM",
    "RECORD",
    "AcceleratorInfo",
    "CallRecorded",
    "Catalog",
    "CatalogRequest",
    "CheckRequest",
    "Configuration",
    "DeviceFailed",
    "DeviceInfo",
    "EdgeResult",
    "MachineInfo",
    "MeasureRequest",
    "MeasureSettings",
    "Message",
    "OperatorInfo",
    "PluginError",
    "ProtocolError",
    "ProviderInfo",
    "Request",
    "RequestDone",
    "RoundTimed",
    "Rows",
    "Sampling",
    "Source",
    "SourceSweep",
    "StepBegun",
    "StepEnded",
    "TrialFailed",
    "TrialRequest",
    "as_decoded",
    "decode",
    "decode_request",
    "encode",
]
