"""The documentation works in a browser that reaches nothing but this machine."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, sync_playwright

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]

pytestmark = pytest.mark.browser


@pytest.fixture
def page(tmp_path, address) -> Iterator[Page]:
    if not os.access(CHROMIUM, os.X_OK):
        missing = "NO BROWSER TEST WAS RUN: there is no chromium on this machine"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    outside: list[str] = []
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path / "profile", executable_path=CHROMIUM, args=FLAGS, headless=True
        )

        def only_here(route, request) -> None:
            if request.url.startswith((address, "data:", "blob:")):
                route.continue_()
            else:
                outside.append(request.url)
                route.abort()

        context.route("**/*", only_here)
        yield context.new_page()
        context.close()
    assert outside == []


def opened(page: Page, address: str, operation: str):
    page.goto(f"{address}/docs")
    block = page.locator(f"#operations-{operation}")
    block.wait_for()
    block.locator(".opblock-summary-control").first.click()
    return block


def executed(block) -> int:
    """Press Execute, and read the status the page shows."""
    block.get_by_role("button", name="Execute").click()
    status = block.locator(".live-responses-table .response-col_status").nth(1)
    status.wait_for(timeout=120_000)
    return int(status.inner_text().split()[0])


def test_the_documentation_lists_every_operation(page, address, client):
    described = client.get("/openapi.json").json()
    page.goto(f"{address}/docs")
    page.locator(".opblock").first.wait_for()
    shown = {path.inner_text().replace("\u200b", "") for path in page.locator(".opblock-summary-path").all()}
    assert shown == set(described["paths"])


def test_an_operation_without_parameters_is_executed_from_the_page(page, address):
    assert executed(opened(page, address, "operations-health")) == 200


def test_the_example_search_is_executed_from_the_page(page, address):
    block = opened(page, address, "layouts-search_layouts")
    assert executed(block) == 200
    assert "shortlist" in block.locator(".live-responses-table .highlight-code").first.inner_text()
