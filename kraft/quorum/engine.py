"""PySyncObj, held to elections and log replication: no thread, no socket, no file, no pickle of its own.

Some of its private names are used, and their presence is checked at start, because the alternative is worse in each:
`__doApplyCommand` is overridden, since the original unpickles what the network brought; `__newAppendEntriesTime` is
set back, since otherwise an entry waits for the next heartbeat; `__raftLastApplied` is set forward past a snapshot;
`__connectedToAnyone`, which it asks before it stands as a candidate, asks the other voters; `__raftElectionDeadline`
is brought forward where it is to stand at once, and `__generateRaftTimeout` spreads the rounds of asking, and tells how
long a follower waits from how long a candidate does;
`createJournal` and `Serializer` are replaced while the engine is built, since it offers no other way to give it a
journal, and makes snapshots of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pysyncobj import syncobj
from pysyncobj.config import SyncObjConf
from pysyncobj.serializer import Serializer
from pysyncobj.version import VERSION

from kraft.quorum.command import REGULAR
from kraft.quorum.config import APPEND_BATCH_BYTES, QuorumConfig
from kraft.quorum.journal import QuorumJournal
from kraft.quorum.transport import QuorumTransport, VoterNode

AUDITED_VERSION = "0.3.17"

LEADER = 2
"""The engine's number of that state."""

_APPLY = "_SyncObj__doApplyCommand"
_APPEND_DUE = "_SyncObj__newAppendEntriesTime"

_LAST_APPLIED = "_SyncObj__raftLastApplied"

_ELECTION_DUE = "_SyncObj__raftElectionDeadline"
_MAY_STAND = "_SyncObj__connectedToAnyone"
_ELECTION_TIMEOUT = "_SyncObj__generateRaftTimeout"

_NEVER = 10**9

OnApply = Callable[[int, int, bytes], None]
"""Index, term and command of an entry that is committed. It may not be on this voter's disk yet."""

OnLeading = Callable[[bool], None]


class UnsuitableEngine(Exception):
    """The installed PySyncObj is not the one that this code was checked against."""


class RaftEngine(syncobj.SyncObj):  # type: ignore[misc]  # PySyncObj has no type information.
    """The engine. Its owner calls `advance` often; between two calls it does nothing but take messages."""

    def __init__(
        self,
        config: QuorumConfig,
        journal: QuorumJournal,
        transport: QuorumTransport,
        on_apply: OnApply,
        on_leading: OnLeading,
    ) -> None:
        """Neither callback may raise. `on_leading` is called inside an engine step, at once when the state changes."""
        _check_version()
        self._journal = journal
        self._transport = transport
        self._on_apply = on_apply
        self._sent_position = (0, 0)
        self._timeouts: _Timeouts | None = None
        self._stands = False

        def on_state_changed(old_state: int, new_state: int) -> None:
            if new_state == LEADER:
                on_leading(True)
            elif old_state == LEADER:
                on_leading(False)

        settings = _engine_settings(config, on_state_changed)
        if journal.last_index == 0:
            settings.raftMinTimeout, settings.raftMaxTimeout = (bound / 1000 for bound in config.first_candidacy_ms)
        with _journal_given(journal):
            # The engine draws its first election timeout in here, and reads the settings anew for each later one.
            super().__init__(VoterNode(config.node_id), transport.nodes, conf=settings, transport=transport)
        self._timeouts = _Timeouts(config, settings)
        self._check_private_names()
        self.skip_to(journal.start_index)

    def skip_to(self, index: int) -> None:
        """Everything up to `index` was applied by a snapshot; the journal has that entry."""
        assert self.raftLastApplied <= index <= self._journal.last_index, f"{self.raftLastApplied}, {index}"
        setattr(self, _LAST_APPLIED, index)

    def advance(self) -> None:
        """Elects, commits, applies, and prepares messages. The journal is to be synced before those leave."""
        self.doTick(0.0)
        while self._isLeader() and (self._position() != self._sent_position or self._transport.resend_wanted):
            # What was just taken into the log, and what was just committed, would wait for the heartbeat.
            self._sent_position = self._position()
            self._transport.resend_wanted = False
            setattr(self, _APPEND_DUE, 0.0)
            self.doTick(0.0)

    def append(self, body: bytes) -> None:
        """Into the log at the next step, in the term of that moment; forgotten when this voter then does not lead."""
        self._applyCommand(body, None, REGULAR)

    def stand_at_once(self) -> None:
        """At the next step, if it may stand then."""
        setattr(self, _ELECTION_DUE, 0.0)

    @property
    def leader_id(self) -> int | None:
        leader: VoterNode | None = self._getLeader()
        # The engine remembers its last leader until it stands as a candidate itself.
        return None if leader is None or self._transport.asks_for_promises else leader.id

    @property
    def leading(self) -> bool:
        return bool(self._isLeader())

    def _position(self) -> tuple[int, int]:
        return self._journal.last_index, self.raftCommitIndex

    def _SyncObj__connectedToAnyone(self) -> bool:
        """In place of the engine's own. It is asked when the election timeout has passed, and answers whether to stand;
        until it says yes, it is asked again at every step."""
        assert self._timeouts is not None, "asked in a step, after the start"
        self._timeouts.use_election_timeout()
        drawn_s: float = super()._SyncObj__generateRaftTimeout()
        self._stands = self._transport.may_stand(self._timeouts.round_ms(drawn_s))
        return self._stands

    def _SyncObj__generateRaftTimeout(self) -> float:
        """In place of the engine's own: its first one is drawn while it is built, from the settings as they are."""
        stands, self._stands = self._stands, False
        if self._timeouts is not None:
            if self._getLeader() is None or stands:
                self._timeouts.use_election_timeout()
            else:
                self._timeouts.use_fetch_timeout()
        drawn_s: float = super()._SyncObj__generateRaftTimeout()
        return drawn_s

    def _SyncObj__doApplyCommand(self, command: bytes) -> None:
        """In place of the engine's own, which unpickles the command and calls a method by its number."""
        index = self.raftLastApplied + 1
        term = self._journal.term_at(index)
        assert term is not None, f"entry {index} was committed and is not in the journal"
        self._on_apply(index, term, command)

    def _check_private_names(self) -> None:
        for name in (_APPEND_DUE, _LAST_APPLIED, _ELECTION_DUE):
            if not hasattr(self, name):
                raise UnsuitableEngine(f"PySyncObj {VERSION} has no {name}")


class _Timeouts:
    """The engine draws from its settings, whatever it waits for: so they are set before each time."""

    def __init__(self, config: QuorumConfig, settings: SyncObjConf) -> None:
        self._config = config
        self._settings = settings

    def use_election_timeout(self) -> None:
        self._use(self._config.election_timeout_ms_min, self._config.election_timeout_ms_max)

    def use_fetch_timeout(self) -> None:
        self._use(*self._config.silence_ms)

    def _use(self, least_ms: int, most_ms: int) -> None:
        self._settings.raftMinTimeout, self._settings.raftMaxTimeout = least_ms / 1000, most_ms / 1000

    def round_ms(self, drawn_s: float) -> int:
        """The pause before the next round of asking, for an election timeout as it was drawn."""
        return int(drawn_s * 1000 / self._config.election_timeout_ms_max * self._config.round_ms_max)


def _check_version() -> None:
    if VERSION != AUDITED_VERSION:
        raise UnsuitableEngine(f"PySyncObj {VERSION} is installed; the quorum was checked against {AUDITED_VERSION}")
    for method in (_APPLY, _MAY_STAND, _ELECTION_TIMEOUT):
        if not hasattr(syncobj.SyncObj, method):
            raise UnsuitableEngine(f"PySyncObj {VERSION} has no {method}")
    for name in ("createJournal", "Serializer"):
        if not hasattr(syncobj, name):
            raise UnsuitableEngine(f"PySyncObj {VERSION} has no {name}")


def _engine_settings(config: QuorumConfig, on_state_changed: Callable[[int, int], None]) -> SyncObjConf:
    election_timeout_s_max = config.election_timeout_ms_max / 1000
    silence_s_max = config.silence_ms[1] / 1000
    return SyncObjConf(
        autoTick=False,
        appendEntriesUseBatch=True,
        appendEntriesBatchSizeBytes=APPEND_BATCH_BYTES,
        appendEntriesPeriod=config.append_period_ms / 1000,
        raftMinTimeout=config.election_timeout_ms_min / 1000,
        raftMaxTimeout=election_timeout_s_max,
        leaderFallbackTimeout=silence_s_max,
        # Only the engine's own transport reads it, which is not used; it must not be below any election timeout.
        connectionTimeout=max(silence_s_max, election_timeout_s_max, config.first_candidacy_ms[1] / 1000),
        commandsQueueSize=0,
        commandsWaitLeader=False,
        dynamicMembershipChange=False,
        # Snapshots of the engine lose acknowledged entries when it is killed at the wrong moment: none are made.
        logCompactionMinEntries=_NEVER,
        logCompactionMinTime=_NEVER,
        onStateChanged=on_state_changed,
    )


@contextmanager
def _journal_given(journal: QuorumJournal) -> Iterator[None]:
    """While inside, the engine's factory of journals gives this one. Nothing else runs on the event loop meanwhile."""
    originals = syncobj.createJournal, syncobj.Serializer
    syncobj.createJournal, syncobj.Serializer = (lambda _file: journal), _NoSnapshots
    try:
        yield
    finally:
        syncobj.createJournal, syncobj.Serializer = originals


class _NoSnapshots(Serializer):  # type: ignore[misc]  # PySyncObj has no type information.
    """In the place of the engine's own snapshots, which are off: ours are written and sent without it."""

    def getTransmissionData(self, transmissionID: VoterNode) -> None:
        """Called by the engine for a voter that lags; its transport sees to that one. The original logs a failure."""
