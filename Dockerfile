# An image with the runtime packages of requirements.lock only, checked by their hashes. See docs/docker.md.
FROM python:3.13-slim AS build
WORKDIR /src
COPY . .
# The whole lock makes the tools (uv, hatchling); what is shipped is the wheel with its own dependencies. The lock as a
# list of constraints gives each of them its version and its hashes; a package that is not in it ends the build.
RUN scripts/setup \
    && .venv/bin/hatchling build -t wheel -d /wheel \
    && .venv/bin/uv venv --quiet /opt/nanomem \
    && .venv/bin/uv pip install --quiet --no-cache --no-build --compile-bytecode --verify-hashes \
        --python /opt/nanomem/bin/python --constraint requirements.lock /wheel/*.whl \
    && .venv/bin/uv pip freeze --python /opt/nanomem/bin/python | sed 's/ @ .*//' | while read -r package; do \
        [ "$package" = nanomem ] || grep -q "^$package " requirements.lock || { echo "not in the lock: $package"; exit 1; }; \
    done

FROM python:3.13-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap git \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --no-create-home --home-dir /data --shell /usr/sbin/nologin nanomem \
    && install -d -m 0700 -o nanomem -g nanomem /data
COPY --from=build /opt/nanomem /opt/nanomem
ENV PATH=/opt/nanomem/bin:$PATH NANOMEM_HOME=/data PYTHONDONTWRITEBYTECODE=1
USER nanomem
WORKDIR /data
VOLUME /data
# SIGTERM: the daemon finishes or parks what runs, 30 s at most. Give it longer: docker stop -t 40, stop_grace_period.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=60s --timeout=20s --start-period=30s \
    CMD nanomem status --json | grep -Eq '"running": ?true'
ENTRYPOINT ["nanomem"]
CMD ["run"]
