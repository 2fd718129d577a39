"""What the browser tests share: a real JupyterLab, a real Chromium, and a watch over what goes wrong on a page.

    def test_slider(open_notebook):
        lab = open_notebook(path)           # a copy of the notebook, in JupyterLab, kernel connected and idle
        lab.run_all()                       # waits for the last cell; a cell that raised fails the test
        lab.page.keyboard.press("ArrowRight")

    def test_film(visit, axe, shots):
        page = visit(film.as_uri(), width=390)    # any page: playwright's Page in a context of its own
        axe(page)                                 # no violation of WCAG level A or AA
        page.screenshot(path=shots / "film.png")

Each page has a browser context of its own. When the test ends, whatever went wrong on any of its pages fails it:
an error on the console or in a script, a request that failed or was answered by an error, a request that wanted
to leave this machine (it is stopped). `visit.problems` lists them so far.
"""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response, Route

#: so that nothing but the page is loaded, and the pictures do not depend on a graphics card
CHROMIUM_OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
                    "--disable-background-networking", "--disable-component-update"]
#: news and update checks would leave the machine; a windowed notebook keeps only the cells on the screen
LAB_SETTINGS = {
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
    "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
}
#: these ask for what is not there (a language server), or are cut off when a test ends a kernel
LAB_WITHOUT = ["@jupyterlab/lsp-extension", "@jupyterlab/notebook-extension:language-server",
               "@jupyterlab/fileeditor-extension:language-server", "@jupyterlab/debugger-extension"]
LAB_START_SECONDS = 60
KERNEL_SECONDS = 60

_KERNEL_IS_IDLE = """() => {
    const session = window.jupyterapp?.shell?.currentWidget?.context?.sessionContext;
    return session && session.isReady && session.session?.kernel?.connectionStatus === 'connected'
        && session.session.kernel.status === 'idle';
}"""
_SHUT_DOWN = "() => window.jupyterapp?.shell?.currentWidget?.context?.sessionContext?.shutdown()"
_RUN_ALL = "() => window.jupyterapp.commands.execute('notebook:run-all-cells')"
_ERRORS = """() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells
    .flatMap(cell => (cell.toJSON().outputs ?? []).filter(output => output.output_type === 'error'))
    .map(output => `${output.ename}: ${output.evalue}`)"""


# ---- the browser and its pages

@pytest.fixture(scope="module")
def browser(chromium) -> Iterator[Browser]:
    """The system's Chromium. One a file: playwright's event loop runs as long as it lives."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_OPTIONS)
        yield browser
        browser.close()


class Visits:
    """Opens pages, each in a context of its own, and collects what goes wrong on them."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.pages: list[Page] = []
        self.problems: list[str] = []

    def __call__(self, url: str, *, width: int = 1280, height: int = 900, **context_options: object) -> Page:
        """The page at `url`, loaded. `context_options`: playwright's, such as color_scheme="dark", has_touch=True."""
        context = self.browser.new_context(viewport={"width": width, "height": height}, **context_options)
        context.set_default_timeout(30_000)
        context.route("**/*", self._keep_here)
        page = context.new_page()
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.problems.append(f"script error: {error}"))
        page.on("requestfailed", self._failed)
        page.on("response", self._answered)
        self.pages.append(page)
        page.goto(url)
        return page

    def close(self) -> None:
        for page in self.pages:
            page.context.close()

    def _keep_here(self, route: Route) -> None:
        if _is_here(route.request.url):
            route.continue_()
        else:
            self.problems.append(f"a request would leave this machine: {route.request.url[:200]}")
            route.abort("blockedbyclient")

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.problems.append(f"console error: {message.text[:500]}")

    def _failed(self, request: Request) -> None:
        # leaving a page cancels what it was still loading: nobody's fault
        if _is_here(request.url) and request.failure != "net::ERR_ABORTED":
            self.problems.append(f"request failed: {request.url[:200]}: {request.failure}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.problems.append(f"{response.status} for {response.url[:200]}")


def _is_here(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("file", "data", "blob", "about") or parts.hostname in ("127.0.0.1", "localhost")


@pytest.fixture
def visit(browser, shots, request) -> Iterator[Visits]:
    """`visit(url, width=, height=, ...)` opens a page. At the end no page may have had a problem."""
    visits = Visits(browser)
    yield visits
    if request.node.stash.get(_FAILED, False):
        for number, page in enumerate(visits.pages):
            page.screenshot(path=shots / f"failed-{request.node.name}-{number}.png")
        print(f"pictures of the pages: {shots}")
    visits.close()
    if visits.problems:
        pytest.fail("on the page:\n" + "\n".join(dict.fromkeys(visits.problems)), pytrace=False)


_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = report.failed
    return report


@pytest.fixture(scope="session")
def shots(tmp_path_factory) -> Path:
    """The folder for pictures of pages: $MINIPAGED_SHOTS to keep them, else a temporary one."""
    chosen = os.environ.get("MINIPAGED_SHOTS")
    folder = Path(chosen) if chosen else tmp_path_factory.mktemp("shots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def axe() -> Callable[..., None]:
    """`axe(page)` fails with every violation of WCAG 2.x level A or AA that axe-core finds on the page.

    `axe(page, "#film")`: only within the elements of that selector.
    """
    script = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    levels = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]

    def check(page: Page, within: str | None = None) -> None:
        page.evaluate(script)
        # preload would fetch the style sheets once more, which a page from the disk may not
        found = page.evaluate("([within, levels]) => axe.run(within ?? document, {runOnly: levels, preload: false})",
                              [within, levels])
        lines = [f"{one['id']} ({one['impact']}): {one['help']}\n    " + "\n    ".join(
                     node["html"][:160] for node in one["nodes"][:5]) for one in found["violations"]]
        assert not lines, "axe-core:\n" + "\n".join(lines)

    return check


# ---- JupyterLab

class Server:
    """A running JupyterLab: `url` to its root, `folder` that it serves."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder

    def add(self, notebook: Path, *beside: Path) -> str:
        """Copy a notebook, and files that it needs, into a folder of its own; its path on the server."""
        place = self.folder / str(sum(1 for _ in self.folder.iterdir()))
        place.mkdir()
        for path in (notebook, *beside):
            shutil.copy(path, place)
        return f"{place.name}/{notebook.name}"


@pytest.fixture(scope="session")
def jupyter(tmp_path_factory, chromium) -> Iterator[Server]:
    """JupyterLab, without the settings, workspaces and kernels of whoever runs the test."""
    home = tmp_path_factory.mktemp("jupyter")
    folder = home / "files"
    folder.mkdir()
    for name, settings in LAB_SETTINGS.items():
        path = home / "settings" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings), encoding="utf-8")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "JUPYTER_PREFER_ENV_PATH": "1",
                   "JUPYTERLAB_SETTINGS_DIR": str(home / "settings")}
    for variable in ("JUPYTERLAB_WORKSPACES_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR",
                     "IPYTHONDIR"):
        environment[variable] = str(home / variable)
    environment.pop("MPLBACKEND", None)  # kernels choose their own
    page_config = home / "JUPYTER_CONFIG_DIR" / "labconfig" / "page_config.json"
    page_config.parent.mkdir(parents=True)
    page_config.write_text(json.dumps({"disabledExtensions": dict.fromkeys(LAB_WITHOUT, True)}), encoding="utf-8")
    log = home / "lab.log"
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1",
             "--port=0", "--IdentityProvider.token=", "--ServerApp.password=",
             "--ServerApp.disable_check_xsrf=True", f"--ServerApp.root_dir={folder}", "--LabApp.news_url=",
             "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--expose-app-in-browser"],
            env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield Server(_wait_for(process, Path(environment["JUPYTER_RUNTIME_DIR"]), log), folder)
    finally:
        process.terminate()  # it ends its kernels
        try:
            process.wait(8)
        except subprocess.TimeoutExpired:  # it waits for a kernel that has not started yet
            process.kill()  # kernels notice that their parent is gone
            process.wait()


def _wait_for(process: subprocess.Popen, runtime: Path, log: Path) -> str:
    """The address of the server, once it answers. It chooses its port itself and writes it into its runtime folder."""
    deadline = time.monotonic() + LAB_START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        for path in runtime.glob("jpserver-*.json"):
            try:
                url = f"http://127.0.0.1:{json.loads(path.read_text(encoding='utf-8'))['port']}"
                urllib.request.urlopen(f"{url}/api/status", timeout=1).close()
                return url
            except (ValueError, OSError):  # not written to its end, or not listening yet
                pass
        time.sleep(0.1)
    pytest.fail(f"JupyterLab does not start:\n{log.read_text(encoding='utf-8')[-2000:]}")


class Lab:
    """A notebook open in JupyterLab: `page` is playwright's, `path` the notebook's on the server."""

    def __init__(self, page: Page, path: str) -> None:
        self.page, self.path = page, path

    def wait_for_kernel(self) -> None:
        """Until a kernel is connected and idle; before that, Run All would ask for one in a dialog."""
        self.page.wait_for_function(_KERNEL_IS_IDLE, polling=100, timeout=1000 * KERNEL_SECONDS)

    def run_all(self) -> None:
        """Run every cell and wait for the last one. AssertionError names the cells' exceptions."""
        self.page.evaluate(_RUN_ALL)
        self.wait_for_kernel()
        errors = self.page.evaluate(_ERRORS)
        assert not errors, f"cells of {self.path} raised: {errors}"

    def save(self) -> None:
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")


@pytest.fixture
def open_notebook(visit, jupyter) -> Iterator[Callable[..., Lab]]:
    """`open_notebook(path, *files beside it)` -> Lab: a copy of the notebook, open in JupyterLab.

    `kernel=False` does not wait for a kernel: the notebook as a reader sees it who never runs it.
    """
    labs: list[Lab] = []

    def open_(notebook: Path, *beside: Path, kernel: bool = True, width: int = 1280, height: int = 1400,
              **context_options: object) -> Lab:
        path = jupyter.add(notebook, *beside)
        workspace = f"test{path.split('/')[0]}"  # its own, or the tabs of the last test would open too
        page = visit(f"{jupyter.url}/lab/workspaces/{workspace}/tree/{quote(path)}", width=width, height=height,
                     **context_options)
        page.locator(".jp-Notebook").wait_for()
        page.locator("#jupyterlab-splash").wait_for(state="detached")
        labs.append(Lab(page, path))
        if kernel:
            labs[-1].wait_for_kernel()
        return labs[-1]

    yield open_
    for lab in labs:
        lab.page.evaluate(_SHUT_DOWN)
