"""ABIs that an instance keeps: how they are given, shown and removed."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, Field

from trace_platform.domain.chains import MAX_CHAIN_ID
from trace_platform.wire.fields import BlockNumber, Strict

# Of compilers' files, which hold much besides.
MAX_ABI_CHARS = 8_000_000

ABI_NAME = r"^[a-z][a-z0-9_]*$"
AbiName = Annotated[
    str,
    Field(
        pattern=ABI_NAME,
        max_length=64,
        description="Name of the ABI: small letters, digits and `_`.",
    ),
]
ContractAddress = Annotated[
    str, Field(pattern=r"^0x[0-9a-fA-F]{40}$"), AfterValidator(lambda text: text.lower())
]
ChainId = Annotated[int, Field(ge=1, le=MAX_CHAIN_ID, description="Id of the chain.")]
Version = Annotated[
    str,
    Field(
        description="Twelve digits of the hash of its definitions, as rows have them in `abi`.",
    ),
]


class AddAbi(Strict):
    name: AbiName
    chain_id: ChainId
    address: ContractAddress | None = Field(
        default=None,
        description="The contract that has this ABI; null means any that has none of its own.",
    )
    from_block: BlockNumber = Field(
        default=0, description="First block of which this is the contract's ABI."
    )
    text: str = Field(
        min_length=1,
        max_length=MAX_ABI_CHARS,
        description="The ABI: JSON as a compiler writes it, a list or an object that has it as "
        "`abi`; or lines such as `event Transfer(address indexed from, address indexed to, "
        "uint256 value)`.",
    )
    replace: bool = Field(
        default=False,
        description="Whether it takes the place of another one that is valid from the same block.",
    )


class AbiRedo(Strict):
    """What is decoded again because of a change."""

    job: str = Field(description="The job, as DAG.JOB.")
    dataset: str = Field(description="Its first output, of which the invalidation is.")
    start: int = Field(description="First block that is decoded again.")
    end: int = Field(description="Last block that is decoded again, included.")
    invalidation_id: UUID = Field(description="Id of the invalidation, which shows how far it is.")


class AbiChanged(Strict):
    name: str | None = Field(description="Name of the ABI; null for a change of a proxy.")
    version: str | None = Field(
        description="Twelve digits of the hash of its definitions; null for a change of a proxy."
    )
    new: bool = Field(description="False when it was so before.")
    redo: list[AbiRedo] = Field(description="What is decoded again, by job.")


class AbiVersion(Strict):
    """A version of an ABI, of a contract from a block on."""

    name: AbiName
    chain_id: ChainId
    address: str | None = Field(
        description="The contract that has this ABI; null means any that has none of its own."
    )
    from_block: int = Field(description="First block of which this is the contract's ABI.")
    version: Version
    hash: str = Field(description="SHA-256 of its definitions.")
    events: int = Field(description="Number of events.")
    functions: int = Field(description="Number of functions.")
    added_at: datetime = Field(description="When it was added.")
    used_by: list[str] = Field(description="The jobs that decode by this ABI, as DAG.JOB.")


class BuiltinAbi(Strict):
    """An ABI that comes with Trace."""

    name: str = Field(description="Name of the ABI.")
    version: Version
    events: int = Field(description="Number of events.")
    functions: int = Field(description="Number of functions.")


class Proxy(Strict):
    """A contract that is decoded by another contract's ABIs."""

    chain_id: ChainId
    address: str = Field(description="The contract whose logs and calls are decoded.")
    implementation: str = Field(description="The contract by whose ABIs they are.")
    from_block: int = Field(description="First block of which that is so.")
    to_block: int | None = Field(
        description="Last block of which that is so; null means until another one follows."
    )
    added_at: datetime = Field(description="When it was added.")


class AbiList(Strict):
    abis: list[AbiVersion] = Field(
        description="Versions of stored ABIs, by name, chain, contract and block."
    )
    proxies: list[Proxy] = Field(description="Contracts that are decoded by another one's ABIs.")
    builtin: list[BuiltinAbi] = Field(description="ABIs that come with Trace.")


class AbiEntry(Strict):
    kind: Literal["event", "function"] = Field(description="What it is.")
    signature: str = Field(description="As Solidity writes it.")
    id: str | None = Field(
        description="Its first topic, or its selector, in hex; null for an anonymous event."
    )


class AbiDefinition(Strict):
    version: Version
    hash: str = Field(description="SHA-256 of the definitions.")
    entries: list[AbiEntry] = Field(description="Its events, then its functions.")


class AbiDetail(Strict):
    name: str = Field(description="Name of the ABI.")
    builtin: bool = Field(description="Whether it comes with Trace.")
    versions: list[AbiVersion] = Field(
        description="Where each of its versions is valid: by chain, contract and block."
    )
    proxies: list[Proxy] = Field(
        description="Contracts that are decoded by it, because they stand in for one that has it."
    )
    definitions: list[AbiDefinition] = Field(description="What each version says.")


class AbiSignatures(Strict):
    """What one version of an ABI says of the entries that a task decodes."""

    version: Version
    events: list[str] = Field(description="Its events, as Solidity writes them.")
    functions: list[str] = Field(description="Its functions, as Solidity writes them.")
    valid: bool = Field(
        description="Whether it is valid anywhere. One that was removed has its part in what "
        "columns are called."
    )


class AbiPlace(Strict):
    """Where a version decodes: a contract, from a block to a block."""

    version: Version
    address: str | None = Field(
        description="The contract; null means any that has none of its own."
    )
    start: int = Field(description="First block.")
    end: int = Field(description="Last block, included.")


class TaskAbi(Strict):
    """A stored ABI as it is when an attempt starts, which decodes by this and nothing else."""

    name: str = Field(description="Name of the ABI.")
    versions: list[AbiSignatures] = Field(
        description="Its versions, in the order in which they were added."
    )
    places: list[AbiPlace] = Field(
        description="Where each of them is valid, as far as the task's blocks go."
    )


class RemoveAbi(Strict):
    version: str = Field(
        pattern=r"^[0-9a-f]{4,64}$", description="Beginning of the hash of what is removed."
    )
    chain_id: ChainId | None = Field(
        default=None, description="Only of the chain with this id; null means of all."
    )
    address: ContractAddress | None = Field(
        default=None, description="Only of this contract; null means of all."
    )
    force: bool = Field(
        default=False,
        description="Whether it is removed though a job decodes by it, which then does so again.",
    )


class AbiRemoved(Strict):
    removed: list[AbiVersion] = Field(description="What was removed.")
    redo: list[AbiRedo] = Field(description="What is decoded again, by job.")


class SeenId(Strict):
    """A first topic or a selector, as data has it."""

    id: str = Field(
        pattern=r"^0x(?:[0-9a-fA-F]{64}|[0-9a-fA-F]{8})$",
        description="A first topic of 32 bytes, or a selector of 4, in hex.",
    )
    topics: int | None = Field(
        default=None,
        ge=1,
        le=4,
        description="How many topics these logs have; null for selectors, or when nobody knows.",
    )
    rows: int = Field(default=1, ge=0, description="Number of rows that have it.")


class GuessAbi(Strict):
    text: str | None = Field(
        default=None,
        max_length=MAX_ABI_CHARS,
        description="A signature such as `Transfer(address,address,uint256)`, or an ABI as it is "
        "added; null: only what is in `seen`.",
    )
    seen: list[SeenId] = Field(
        default=[], max_length=10_000, description="First topics and selectors of data."
    )


class GuessedEntry(Strict):
    signature: str = Field(description="The event or function, as the ABI has it.")
    id: str = Field(description="Its first topic, or its selector, in hex.")
    rows: int = Field(description="Number of rows that have it.")


class AbiGuess(Strict):
    """An ABI that knows some of it."""

    name: str = Field(description="Name of the ABI.")
    builtin: bool = Field(description="Whether it comes with Trace.")
    version: Version
    matched: list[GuessedEntry] = Field(description="What it knows, the most rows first.")
    of: int = Field(description="Number of events and functions that the ABI has.")


class AbiGuesses(Strict):
    entries: list[AbiEntry] = Field(
        description="What the text says; of one signature both the event and the function."
    )
    guesses: list[AbiGuess] = Field(description="ABIs that know some of it, the best first.")
    unknown: list[SeenId] = Field(description="What no ABI knows, the most rows first.")


class AddProxy(Strict):
    chain_id: ChainId
    address: ContractAddress = Field(description="The contract whose logs and calls are decoded.")
    implementation: ContractAddress = Field(description="The contract by whose ABIs they are.")
    from_block: BlockNumber = Field(default=0, description="First block of which that is so.")
    to_block: BlockNumber | None = Field(
        default=None,
        description="Last block of which that is so; null means until another one follows.",
    )
    replace: bool = Field(
        default=False,
        description="Whether it takes the place of another one from the same block.",
    )


class RemoveProxy(Strict):
    chain_id: ChainId
    address: ContractAddress = Field(description="The contract that stands in for another one.")
    from_block: BlockNumber = Field(description="First block of which it does.")


class ProxyRemoved(Strict):
    removed: Proxy = Field(description="What was removed.")
    redo: list[AbiRedo] = Field(description="What is decoded again, by job.")
