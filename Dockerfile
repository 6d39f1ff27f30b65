# The steps are those of `make install`: the hashed lock, then the project without its dependencies.
FROM python:3.11-slim AS build
WORKDIR /app
RUN python3 -m venv .venv
COPY requirements.lock ./
RUN .venv/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml README.md ./
COPY models models
COPY search search
COPY service service
COPY openapi openapi
RUN .venv/bin/pip install --no-cache-dir --no-deps --no-build-isolation -e .

FROM python:3.11-slim
RUN useradd --system --uid 10001 --no-create-home layout
COPY --from=build /app /app
WORKDIR /app
ENV PATH=/app/.venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 MPLCONFIGDIR=/tmp/matplotlib
USER 10001
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD ["python", "-c", "import os, urllib.request as web; web.urlopen(f\"http://127.0.0.1:{os.environ.get('LAYOUT_SEARCH_PORT', '8000')}/healthz\", timeout=2)"]
CMD ["layout-search", "serve", "--host", "0.0.0.0"]
