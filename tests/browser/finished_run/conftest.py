"""A run by a real worker, which the tests of this folder share; they run in one process, which makes it once."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.serving import Site

VERDICT_MS = 600_000
SLA = """
name: Browser test
traffic: {prompt_tokens: 16, output_tokens: 8}
objectives: [{metric: ttf_n, n: 8, limit: 60000}]
constraints: {minutes: 0.15, gpu_classes: [cpu], exclude: [compiled]}
"""
"""Compiling takes longer than all the rest of the run."""


@pytest.fixture(scope="package")
def finished_run(chromium: Browser, site: Site, session: Path) -> str:
    """The path of a run that was submitted with the form and watched to its verdict."""
    context = chromium.new_context(base_url=site.url, storage_state=session)
    page = context.new_page()
    page.goto("/workloads/new/")
    page.get_by_label("Model required").select_option("tiny-llama")
    page.get_by_text("Paste or upload an SLA file").click()
    page.locator('[name="sla"]').fill(SLA)
    page.locator("button.button-primary", has_text="Start the run").click()
    page.wait_for_url("**/runs/*/")
    expect(page.get_by_role("heading", name="Stages")).to_be_visible()
    expect(page.locator('[data-stage="report"][data-state="done"]')).to_be_visible(timeout=VERDICT_MS)
    path = page.url.removeprefix(site.url)
    context.close()
    return path
