"""PySyncObj, limited to elections and log replication: no thread, socket, file or pickle of its own.

Some of its private names are used, and their presence is checked at start. Each has a reason:
`__doApplyCommand` is overridden, since the original unpickles what the network brought; `__newAppendEntriesTime` is
reset, since otherwise an entry waits for the next heartbeat; `__raftLastApplied` is advanced past a snapshot;
`__connectedToAnyone`, which it calls before it becomes a candidate, asks the other voters for pre-votes;
`__raftElectionDeadline` is brought forward for an immediate election; and `__generateRaftTimeout` spreads the pre-vote
rounds and gives followers another timeout than candidates. The two times that are set are also read, to call the engine
only when something is due. `__raftMatchIndex` is reset for a voter that lost its entries.
`createJournal` and `Serializer` are replaced while the engine is built: it has no other way to take a journal, and
would make snapshots of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pysyncobj import syncobj
from pysyncobj.config import SyncObjConf
from pysyncobj.serializer import Serializer
from pysyncobj.version import VERSION

from kraft.quorum.command import REGULAR
from kraft.quorum.config import APPEND_BATCH_BYTES, QuorumConfig
from kraft.quorum.engine_facts import VoterNode
from kraft.quorum.journal import QuorumJournal
from kraft.quorum.transport import QuorumTransport

AUDITED_VERSION = "0.3.17"

LEADER = 2
"""The engine's number for the state of a leader."""

_APPLY = "_SyncObj__doApplyCommand"
_APPEND_DUE = "_SyncObj__newAppendEntriesTime"

_LAST_APPLIED = "_SyncObj__raftLastApplied"

_MATCH_INDEX = "_SyncObj__raftMatchIndex"

_ELECTION_DUE = "_SyncObj__raftElectionDeadline"
_MAY_CAMPAIGN = "_SyncObj__connectedToAnyone"
_ELECTION_TIMEOUT = "_SyncObj__generateRaftTimeout"

_NEVER = 10**9

OnApply = Callable[[int, int, bytes], None]
"""Takes index, term and command of a committed entry, which may not be on this voter's disk yet."""

OnLeading = Callable[[bool], None]


class UnsuitableEngine(Exception):
    """The installed PySyncObj is not the version that this code was checked against."""


class RaftEngine(syncobj.SyncObj):  # type: ignore[misc]  # PySyncObj has no type information.
    """The engine. Its owner calls `advance` often; between two calls it only receives messages."""

    def __init__(
        self,
        config: QuorumConfig,
        journal: QuorumJournal,
        transport: QuorumTransport,
        on_apply: OnApply,
        on_leading: OnLeading,
    ) -> None:
        """Neither callback may raise. `on_leading` is called inside an engine step, as soon as the state changes."""
        _check_version()
        self._journal = journal
        self._transport = transport
        self._on_apply = on_apply
        self._sent_position = (0, 0)
        self._timeouts: _Timeouts | None = None
        self._campaigns = False

        def on_state_changed(old_state: int, new_state: int) -> None:
            if new_state == LEADER:
                # A late vote elects a candidate that has begun to ask again.
                transport.end_pre_votes()
                on_leading(True)
            elif old_state == LEADER:
                on_leading(False)

        settings = _engine_settings(config, on_state_changed)
        if journal.last_index == 0:
            _use_first_election(settings, config)
        with _journal_injected(journal):
            # The engine draws its first election timeout in here, and reads the settings again for each later one.
            super().__init__(VoterNode(config.node_id), transport.nodes, conf=settings, transport=transport)
        settings.appendEntriesPeriod = config.append_period_ms / 1000
        self._is_alone = not config.peer_ids
        self._timeouts = _Timeouts(config, settings)
        self._check_private_names()
        self.skip_to(journal.start_index)

    def skip_to(self, index: int) -> None:
        """Skip the entries up to `index`, which a snapshot has applied; the journal has that entry."""
        assert self.raftLastApplied <= index <= self._journal.last_index, f"{self.raftLastApplied}, {index}"
        setattr(self, _LAST_APPLIED, index)

    def advance(self) -> None:
        """Elect, commit, apply, and prepare messages. The journal must be synced before those are sent."""
        self.doTick(0.0)
        while self._isLeader() and (self._position() != self._sent_position or self._transport.resend_wanted):
            # Otherwise entries that were just appended or committed would wait for the next heartbeat.
            self._sent_position = self._position()
            self._transport.resend_wanted = False
            setattr(self, _APPEND_DUE, 0.0)
            self.doTick(0.0)

    @property
    def due_in_s(self) -> float:
        """Time until this voter must `advance` although nothing arrives; not above 0 while it looks for a majority.

        It is the time until a leader's next append, or a follower's next election; infinite for a leader without peers.
        """
        if self.leading and self._is_alone:
            return math.inf
        due_s: float = getattr(self, _APPEND_DUE if self.leading else _ELECTION_DUE)
        return due_s - float(syncobj.monotonicTime())

    def append(self, body: bytes) -> None:
        """Append an entry at the next step, in the term of that moment; dropped if this voter does not lead then."""
        self._applyCommand(body, None, REGULAR)

    def campaign_now(self) -> None:
        """Start an election at the next step, if `may_campaign` allows it then."""
        setattr(self, _ELECTION_DUE, 0.0)

    def forget_acknowledgements(self, voter: int) -> None:
        """Count no entry as stored by that voter until it acknowledges it again. This voter must lead."""
        getattr(self, _MATCH_INDEX)[VoterNode(voter)] = 0

    @property
    def leader_id(self) -> int | None:
        leader: VoterNode | None = self._getLeader()
        # The engine remembers its last leader until it becomes a candidate itself.
        return None if leader is None or self._transport.asks_for_pre_votes else leader.id

    @property
    def leading(self) -> bool:
        return bool(self._isLeader())

    def _position(self) -> tuple[int, int]:
        return self._journal.last_index, self.raftCommitIndex

    def _SyncObj__connectedToAnyone(self) -> bool:
        """Return whether to become a candidate. Replaces the engine's own.

        The engine calls it once the election timeout has passed, at every step until it returns True.
        """
        assert self._timeouts is not None, "called in a step, after the start"
        self._timeouts.use_election_timeout()
        drawn_s: float = super()._SyncObj__generateRaftTimeout()
        self._campaigns = self._transport.may_campaign(self._timeouts.round_ms(drawn_s))
        return self._campaigns

    def _SyncObj__generateRaftTimeout(self) -> float:
        """Draw an election or a fetch timeout. Replaces the engine's own; the first call comes while it is built."""
        campaigns, self._campaigns = self._campaigns, False
        if self._timeouts is not None:
            if self._getLeader() is None or campaigns:
                self._timeouts.use_election_timeout()
            else:
                self._timeouts.use_fetch_timeout()
        drawn_s: float = super()._SyncObj__generateRaftTimeout()
        return drawn_s

    def _SyncObj__doApplyCommand(self, command: bytes) -> None:
        """Pass on a committed entry. Replaces the engine's own, which unpickles the command and calls a method."""
        index = self.raftLastApplied + 1
        term = self._journal.term_at(index)
        assert term is not None, f"entry {index} was committed and is not in the journal"
        self._on_apply(index, term, command)

    def _check_private_names(self) -> None:
        for name in (_APPEND_DUE, _LAST_APPLIED, _ELECTION_DUE, _MATCH_INDEX):
            if not hasattr(self, name):
                raise UnsuitableEngine(f"PySyncObj {VERSION} has no {name}")


class _Timeouts:
    """Sets the engine's one pair of timeouts before each draw, for an election or for a fetch."""

    def __init__(self, config: QuorumConfig, settings: SyncObjConf) -> None:
        self._config = config
        self._settings = settings

    def use_election_timeout(self) -> None:
        self._use(self._config.election_timeout_ms_min, self._config.election_timeout_ms_max)

    def use_fetch_timeout(self) -> None:
        self._use(*self._config.fetch_timeout_range_ms)

    def _use(self, least_ms: int, most_ms: int) -> None:
        self._settings.raftMinTimeout, self._settings.raftMaxTimeout = least_ms / 1000, most_ms / 1000

    def round_ms(self, drawn_s: float) -> int:
        """Return the pause before the next pre-vote round, scaled from a drawn election timeout."""
        return int(drawn_s * 1000 / self._config.election_timeout_ms_max * self._config.round_ms_max)


def _check_version() -> None:
    if VERSION != AUDITED_VERSION:
        raise UnsuitableEngine(
            f"PySyncObj {VERSION} is installed, but the quorum needs {AUDITED_VERSION}: install that version"
        )
    for method in (_APPLY, _MAY_CAMPAIGN, _ELECTION_TIMEOUT):
        if not hasattr(syncobj.SyncObj, method):
            raise UnsuitableEngine(f"PySyncObj {VERSION} has no {method}")
    for name in ("createJournal", "Serializer"):
        if not hasattr(syncobj, name):
            raise UnsuitableEngine(f"PySyncObj {VERSION} has no {name}")


def _engine_settings(config: QuorumConfig, on_state_changed: Callable[[int, int], None]) -> SyncObjConf:
    election_timeout_s_max = config.election_timeout_ms_max / 1000
    fetch_timeout_s_max = config.fetch_timeout_range_ms[1] / 1000
    return SyncObjConf(
        autoTick=False,
        appendEntriesUseBatch=True,
        appendEntriesBatchSizeBytes=APPEND_BATCH_BYTES,
        appendEntriesPeriod=config.append_period_ms / 1000,
        raftMinTimeout=config.election_timeout_ms_min / 1000,
        raftMaxTimeout=election_timeout_s_max,
        leaderFallbackTimeout=fetch_timeout_s_max,
        # Read only by the engine's own transport, which is not used; must not be below any election timeout.
        connectionTimeout=max(fetch_timeout_s_max, election_timeout_s_max, config.first_election_ms[1] / 1000),
        commandsQueueSize=0,
        commandsWaitLeader=False,
        dynamicMembershipChange=False,
        # The engine's own snapshots lose acknowledged entries when it is killed at the wrong moment, so they are off.
        logCompactionMinEntries=_NEVER,
        logCompactionMinTime=_NEVER,
        onStateChanged=on_state_changed,
    )


def _use_first_election(settings: SyncObjConf, config: QuorumConfig) -> None:
    """Set the timeout of the first election, for the time in which the engine is built."""
    settings.raftMinTimeout, settings.raftMaxTimeout = (bound / 1000 for bound in config.first_election_ms)
    # The engine refuses a timeout that is not above three append periods.
    settings.appendEntriesPeriod = settings.raftMinTimeout / 4


@contextmanager
def _journal_injected(journal: QuorumJournal) -> Iterator[None]:
    """Make the engine's journal factory return this journal. Nothing else may run on the event loop meanwhile."""
    originals = syncobj.createJournal, syncobj.Serializer
    syncobj.createJournal, syncobj.Serializer = (lambda _file: journal), _NoSnapshots
    try:
        yield
    finally:
        syncobj.createJournal, syncobj.Serializer = originals


class _NoSnapshots(Serializer):  # type: ignore[misc]  # PySyncObj has no type information.
    """Replaces the engine's own snapshots, which are off: ours are written and sent without the engine."""

    def getTransmissionData(self, transmissionID: VoterNode) -> None:
        """Do nothing for a voter that lags: the transport sends it a snapshot. The original logs a failure."""
