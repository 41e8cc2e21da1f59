"""When something is due that a cron expression names, in a time zone. Days with a change of clocks go as with cron."""

from datetime import UTC, datetime, tzinfo

from cronsim import CronSim, CronSimError


def next_after(expression: str, zone: tzinfo, moment: datetime) -> datetime | None:
    """The first due time after a moment, in UTC; None: there is none. Raises ValueError: what is wrong with it."""
    try:
        return next(CronSim(expression.strip(), moment.astimezone(zone))).astimezone(UTC)
    except CronSimError as error:
        raise ValueError(str(error)) from None
    except StopIteration:
        return None
