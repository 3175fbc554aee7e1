# A CPU image: docker build -t penstock . && docker run --rm -v "$PWD:/home/penstock/work" -w /home/penstock/work penstock run program.py
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN pip wheel --no-deps -w /wheels /src

FROM python:3.13-slim
RUN pip install --no-cache-dir torch --index-url https://download.pytorch.org/whl/cpu
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl && rm -r /wheels && useradd --create-home penstock
USER penstock
WORKDIR /home/penstock
ENTRYPOINT ["penstock"]
CMD ["--help"]
