"""`addresses: { from: { dataset: pools }, column: pool }`: an input that is said where it is used.

It stands for the input of the job that reads this, which it adds when the job has none. One that it
adds is only read, and does not wake the job.
"""

from __future__ import annotations

from typing import Any

from trace_platform.operators.decode.stored_names import DECODERS


def with_address_input(job: Any) -> Any:
    """A job as it is written, with the number of the input in place of `from`. What is not of this
    form stays as it is, for others to find out."""
    if not isinstance(job, dict) or job.get("operator") not in DECODERS:
        return job
    config, inputs = job.get("config"), job.get("inputs")
    if not isinstance(config, dict) or not isinstance(inputs, list):
        return job
    addresses = config.get("addresses")
    if not isinstance(addresses, dict):
        return job
    if "from" not in addresses or "input" in addresses:
        return job
    source = addresses["from"]
    same = [
        number
        for number, edge in enumerate(inputs)
        if isinstance(edge, dict) and edge.get("from") == source
    ]
    index = same[0] if same else len(inputs)
    edges = inputs if same else [*inputs, {"from": source, "trigger": False}]
    chosen = {name: said for name, said in addresses.items() if name != "from"} | {"input": index}
    return job | {"inputs": edges, "config": config | {"addresses": chosen}}
