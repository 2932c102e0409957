from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.cancellations import Cancellations
    from ..models.closed_loop import ClosedLoop
    from ..models.fixed_length import FixedLength
    from ..models.gamma import Gamma
    from ..models.log_normal_length import LogNormalLength
    from ..models.poisson import Poisson
    from ..models.recorded_arrivals import RecordedArrivals
    from ..models.recorded_length import RecordedLength
    from ..models.sampling import Sampling
    from ..models.uniform_length import UniformLength


T = TypeVar("T", bound="Traffic")


@_attrs_define
class Traffic:
    """How long requests are, when they arrive, and how their users behave.

    `prompt_tokens`, `output_tokens`, `batch` and `concurrency` describe equal requests in a closed loop, which is what
    a run of the workbench verifies. The other fields are for its load stage and for `workbench measure`; see
    `only_under_load`.

        Attributes:
            prompt_tokens (int | Unset):  Default: 128.
            output_tokens (int | Unset):  Default: 64.
            batch (int | Unset): requests served together in one batch Default: 1.
            concurrency (int | Unset): closed-loop clients that wait on one GPU; each sends its next request when the last
                is answered Default: 1.
            prompt_lengths (FixedLength | LogNormalLength | None | RecordedLength | UniformLength | Unset): in place of
                prompt_tokens
            output_lengths (FixedLength | LogNormalLength | None | RecordedLength | UniformLength | Unset): in place of
                output_tokens
            shared_prefix (int | Unset): tokens that all prompts begin with Default: 0.
            arrivals (ClosedLoop | Gamma | None | Poisson | RecordedArrivals | Unset): a closed loop without pauses unless
                stated
            recording (str | Unset): CSV or JSON Lines of arrival_s, prompt_tokens, output_tokens and conversation: a path,
                or in a workload the SHA-256 of a recording that was handed in Default: ''.
            end_of_text (bool | Unset): whether an answer may end before its length Default: False.
            sampling (None | Sampling | Unset):
            cancellations (Cancellations | None | Unset):
            time_out_s (float | Unset): a request that takes longer has failed Default: 120.0.
            seed (int | Unset):  Default: 0.
    """

    prompt_tokens: int | Unset = 128
    output_tokens: int | Unset = 64
    batch: int | Unset = 1
    concurrency: int | Unset = 1
    prompt_lengths: FixedLength | LogNormalLength | None | RecordedLength | UniformLength | Unset = UNSET
    output_lengths: FixedLength | LogNormalLength | None | RecordedLength | UniformLength | Unset = UNSET
    shared_prefix: int | Unset = 0
    arrivals: ClosedLoop | Gamma | None | Poisson | RecordedArrivals | Unset = UNSET
    recording: str | Unset = ""
    end_of_text: bool | Unset = False
    sampling: None | Sampling | Unset = UNSET
    cancellations: Cancellations | None | Unset = UNSET
    time_out_s: float | Unset = 120.0
    seed: int | Unset = 0

    def to_dict(self) -> dict[str, Any]:
        from ..models.cancellations import Cancellations  # noqa: PLC0415
        from ..models.closed_loop import ClosedLoop  # noqa: PLC0415
        from ..models.fixed_length import FixedLength  # noqa: PLC0415
        from ..models.gamma import Gamma  # noqa: PLC0415
        from ..models.log_normal_length import LogNormalLength  # noqa: PLC0415
        from ..models.poisson import Poisson  # noqa: PLC0415
        from ..models.recorded_arrivals import RecordedArrivals  # noqa: PLC0415
        from ..models.recorded_length import RecordedLength  # noqa: PLC0415
        from ..models.sampling import Sampling  # noqa: PLC0415
        from ..models.uniform_length import UniformLength  # noqa: PLC0415

        prompt_tokens = self.prompt_tokens

        output_tokens = self.output_tokens

        batch = self.batch

        concurrency = self.concurrency

        prompt_lengths: dict[str, Any] | None | Unset
        if isinstance(self.prompt_lengths, Unset):
            prompt_lengths = UNSET
        elif isinstance(self.prompt_lengths, FixedLength):
            prompt_lengths = self.prompt_lengths.to_dict()
        elif isinstance(self.prompt_lengths, UniformLength):
            prompt_lengths = self.prompt_lengths.to_dict()
        elif isinstance(self.prompt_lengths, LogNormalLength):
            prompt_lengths = self.prompt_lengths.to_dict()
        elif isinstance(self.prompt_lengths, RecordedLength):
            prompt_lengths = self.prompt_lengths.to_dict()
        else:
            prompt_lengths = self.prompt_lengths

        output_lengths: dict[str, Any] | None | Unset
        if isinstance(self.output_lengths, Unset):
            output_lengths = UNSET
        elif isinstance(self.output_lengths, FixedLength):
            output_lengths = self.output_lengths.to_dict()
        elif isinstance(self.output_lengths, UniformLength):
            output_lengths = self.output_lengths.to_dict()
        elif isinstance(self.output_lengths, LogNormalLength):
            output_lengths = self.output_lengths.to_dict()
        elif isinstance(self.output_lengths, RecordedLength):
            output_lengths = self.output_lengths.to_dict()
        else:
            output_lengths = self.output_lengths

        shared_prefix = self.shared_prefix

        arrivals: dict[str, Any] | None | Unset
        if isinstance(self.arrivals, Unset):
            arrivals = UNSET
        elif isinstance(self.arrivals, ClosedLoop):
            arrivals = self.arrivals.to_dict()
        elif isinstance(self.arrivals, Poisson):
            arrivals = self.arrivals.to_dict()
        elif isinstance(self.arrivals, Gamma):
            arrivals = self.arrivals.to_dict()
        elif isinstance(self.arrivals, RecordedArrivals):
            arrivals = self.arrivals.to_dict()
        else:
            arrivals = self.arrivals

        recording = self.recording

        end_of_text = self.end_of_text

        sampling: dict[str, Any] | None | Unset
        if isinstance(self.sampling, Unset):
            sampling = UNSET
        elif isinstance(self.sampling, Sampling):
            sampling = self.sampling.to_dict()
        else:
            sampling = self.sampling

        cancellations: dict[str, Any] | None | Unset
        if isinstance(self.cancellations, Unset):
            cancellations = UNSET
        elif isinstance(self.cancellations, Cancellations):
            cancellations = self.cancellations.to_dict()
        else:
            cancellations = self.cancellations

        time_out_s = self.time_out_s

        seed = self.seed

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if prompt_tokens is not UNSET:
            field_dict["prompt_tokens"] = prompt_tokens
        if output_tokens is not UNSET:
            field_dict["output_tokens"] = output_tokens
        if batch is not UNSET:
            field_dict["batch"] = batch
        if concurrency is not UNSET:
            field_dict["concurrency"] = concurrency
        if prompt_lengths is not UNSET:
            field_dict["prompt_lengths"] = prompt_lengths
        if output_lengths is not UNSET:
            field_dict["output_lengths"] = output_lengths
        if shared_prefix is not UNSET:
            field_dict["shared_prefix"] = shared_prefix
        if arrivals is not UNSET:
            field_dict["arrivals"] = arrivals
        if recording is not UNSET:
            field_dict["recording"] = recording
        if end_of_text is not UNSET:
            field_dict["end_of_text"] = end_of_text
        if sampling is not UNSET:
            field_dict["sampling"] = sampling
        if cancellations is not UNSET:
            field_dict["cancellations"] = cancellations
        if time_out_s is not UNSET:
            field_dict["time_out_s"] = time_out_s
        if seed is not UNSET:
            field_dict["seed"] = seed

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.cancellations import Cancellations  # noqa: PLC0415
        from ..models.closed_loop import ClosedLoop  # noqa: PLC0415
        from ..models.fixed_length import FixedLength  # noqa: PLC0415
        from ..models.gamma import Gamma  # noqa: PLC0415
        from ..models.log_normal_length import LogNormalLength  # noqa: PLC0415
        from ..models.poisson import Poisson  # noqa: PLC0415
        from ..models.recorded_arrivals import RecordedArrivals  # noqa: PLC0415
        from ..models.recorded_length import RecordedLength  # noqa: PLC0415
        from ..models.sampling import Sampling  # noqa: PLC0415
        from ..models.uniform_length import UniformLength  # noqa: PLC0415

        d = dict(src_dict)
        prompt_tokens = d.pop("prompt_tokens", UNSET)

        output_tokens = d.pop("output_tokens", UNSET)

        batch = d.pop("batch", UNSET)

        concurrency = d.pop("concurrency", UNSET)

        def _parse_prompt_lengths(
            data: object,
        ) -> FixedLength | LogNormalLength | None | RecordedLength | UniformLength | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                prompt_lengths_type_0_type_0 = FixedLength.from_dict(data)

                return prompt_lengths_type_0_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                prompt_lengths_type_0_type_1 = UniformLength.from_dict(data)

                return prompt_lengths_type_0_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                prompt_lengths_type_0_type_2 = LogNormalLength.from_dict(data)

                return prompt_lengths_type_0_type_2
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                prompt_lengths_type_0_type_3 = RecordedLength.from_dict(data)

                return prompt_lengths_type_0_type_3
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(FixedLength | LogNormalLength | None | RecordedLength | UniformLength | Unset, data)

        prompt_lengths = _parse_prompt_lengths(d.pop("prompt_lengths", UNSET))

        def _parse_output_lengths(
            data: object,
        ) -> FixedLength | LogNormalLength | None | RecordedLength | UniformLength | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                output_lengths_type_0_type_0 = FixedLength.from_dict(data)

                return output_lengths_type_0_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                output_lengths_type_0_type_1 = UniformLength.from_dict(data)

                return output_lengths_type_0_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                output_lengths_type_0_type_2 = LogNormalLength.from_dict(data)

                return output_lengths_type_0_type_2
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                output_lengths_type_0_type_3 = RecordedLength.from_dict(data)

                return output_lengths_type_0_type_3
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(FixedLength | LogNormalLength | None | RecordedLength | UniformLength | Unset, data)

        output_lengths = _parse_output_lengths(d.pop("output_lengths", UNSET))

        shared_prefix = d.pop("shared_prefix", UNSET)

        def _parse_arrivals(data: object) -> ClosedLoop | Gamma | None | Poisson | RecordedArrivals | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                arrivals_type_0_type_0 = ClosedLoop.from_dict(data)

                return arrivals_type_0_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                arrivals_type_0_type_1 = Poisson.from_dict(data)

                return arrivals_type_0_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                arrivals_type_0_type_2 = Gamma.from_dict(data)

                return arrivals_type_0_type_2
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                arrivals_type_0_type_3 = RecordedArrivals.from_dict(data)

                return arrivals_type_0_type_3
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(ClosedLoop | Gamma | None | Poisson | RecordedArrivals | Unset, data)

        arrivals = _parse_arrivals(d.pop("arrivals", UNSET))

        recording = d.pop("recording", UNSET)

        end_of_text = d.pop("end_of_text", UNSET)

        def _parse_sampling(data: object) -> None | Sampling | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                sampling_type_0 = Sampling.from_dict(data)

                return sampling_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | Sampling | Unset, data)

        sampling = _parse_sampling(d.pop("sampling", UNSET))

        def _parse_cancellations(data: object) -> Cancellations | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                cancellations_type_0 = Cancellations.from_dict(data)

                return cancellations_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Cancellations | None | Unset, data)

        cancellations = _parse_cancellations(d.pop("cancellations", UNSET))

        time_out_s = d.pop("time_out_s", UNSET)

        seed = d.pop("seed", UNSET)

        traffic = cls(
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            batch=batch,
            concurrency=concurrency,
            prompt_lengths=prompt_lengths,
            output_lengths=output_lengths,
            shared_prefix=shared_prefix,
            arrivals=arrivals,
            recording=recording,
            end_of_text=end_of_text,
            sampling=sampling,
            cancellations=cancellations,
            time_out_s=time_out_s,
            seed=seed,
        )

        return traffic
