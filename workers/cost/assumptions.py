"""A measured load under other assumptions than those it was measured with: another price, other lengths."""

from workers.cost.run_economics import length_factor
from workers.cost.unit_costs import scale_interval
from workers.documents.money import ServedLoad, UnitEconomics


def at_price(economics: UnitEconomics, usd_per_hour: float) -> UnitEconomics:
    """Both sides at another price of a GPU-hour, as stated. A side on other GPUs than after keeps its own."""
    gpu = economics.after.gpu if economics.after else ""

    def side(load: ServedLoad | None) -> ServedLoad | None:
        if load is None or (load.gpu != gpu and gpu):
            return load
        return load.model_copy(update={"usd_per_hour": usd_per_hour * load.gpus, "price_basis": "stated"})

    return economics.model_copy(update={"before": side(economics.before), "after": side(economics.after)})


def at_lengths(economics: UnitEconomics, prompt: int, output: int) -> UnitEconomics:
    """Both sides at other lengths, as many users, by `length_factor`. Raises ValueError where it gives None."""
    if (prompt, output) == (economics.prompt_tokens, economics.output_tokens):
        return economics

    def side(load: ServedLoad | None) -> ServedLoad | None:
        if load is None:
            return None
        factor = length_factor(economics, load, prompt, output) if economics.generates else None
        if factor is None:
            raise ValueError("Other lengths cannot be modelled here: TTFT and TPOT were not measured.")
        return load.model_copy(update={"requests_per_second": scale_interval(load.requests_per_second, 1 / factor)})

    return economics.model_copy(update={"before": side(economics.before), "after": side(economics.after)})
